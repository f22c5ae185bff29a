"""Source files to measure with: generated from templates, the same ones every time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

HELPERS = '''\
def {name}_schedule(step, total, warmup={a}, floor={b}e-3):
    """Learning rate factor at ``step``: linear warm-up, then cosine decay."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def load_{name}(path, limit=None, encoding="utf-8"):
    # One sample per line: label, then features separated by commas.
    samples, skipped = [], 0
    with open(path, encoding=encoding) as lines:
        for number, line in enumerate(lines):
            if limit is not None and number >= limit:
                break
            fields = line.rstrip("\\n").split(",")
            if len(fields) < {a}:
                skipped += 1
                continue
            label, features = int(fields[0]), [float(value) for value in fields[1:]]
            samples.append((features, label))
    if skipped:
        print(f"{{path}}: {{skipped}} of {{number + 1}} lines are too short")
    return samples


def {name}_accuracy(output, target, topk=(1, {a})):
    with torch.no_grad():
        largest = min(max(topk), output.size(1))
        _, predicted = output.topk(largest, dim=1, largest=True, sorted=True)
        correct = predicted.t().eq(target.view(1, -1).expand_as(predicted.t()))
        return [correct[:k].reshape(-1).float().sum().item() * 100.0 / target.size(0) for k in topk]


class {title}Meter:
    """Running mean of ``{name}``."""

    def __init__(self, fmt=":.{b}f"):
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.value, self.total, self.count = 0.0, 0.0, 0

    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n

    @property
    def mean(self):
        return self.total / self.count if self.count else float("nan")

    def __str__(self):
        return ("{name} {{value" + self.fmt + "}} ({{mean" + self.fmt + "}})").format(value=self.value, mean=self.mean)


class {title}Block(nn.Module):
    expansion = {b}

    def __init__(self, inputs, planes, stride=1, downsample=None, dropout=0.{a}):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes * self.expansion, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes * self.expansion)
        self.drop = nn.Dropout2d(dropout)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.drop(self.bn2(self.conv2(out)))
        return F.relu(out + identity)
'''

HEAD = '''\
"""{title}: {purpose}."""
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
'''

IMPORTS = """\
import torch.utils.data.distributed
import horovod.torch as hvd
"""

USING = """\

class Net(nn.Module):
    def __init__(self, classes={a}0):
        super().__init__()
        self.conv1 = nn.Conv2d(3, {a}2, kernel_size=5)
        self.conv2 = nn.Conv2d({a}2, {b}4, kernel_size=5)
        self.fc = nn.Linear({b}4 * 25, classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def metric_average(val, name):
    tensor = torch.tensor(val)
    avg_tensor = hvd.allreduce(tensor, name=name)
    return avg_tensor.item()


def adjust_learning_rate(optimizer, epoch, batch_idx, batches):
    # Warm up from the rate of one worker to that of all of them.
    if epoch < args.warmup_epochs:
        epoch += float(batch_idx + 1) / batches
        lr_adj = 1.0 / hvd.size() * (epoch * (hvd.size() - 1) / args.warmup_epochs + 1)
    else:
        lr_adj = 0.1 ** (epoch // {a}0)
    for param_group in optimizer.param_groups:
        param_group["lr"] = args.base_lr * hvd.size() * lr_adj


def train(epoch, model, optimizer, loader, sampler, device):
    model.train()
    sampler.set_epoch(epoch)
    started = time.time()
    for batch_idx, (data, target) in enumerate(loader):
        adjust_learning_rate(optimizer, epoch, batch_idx, len(loader))
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
{step}
        if batch_idx % args.log_interval == 0 and hvd.rank() == 0:
            print(
                "Train Epoch: {{}} [{{}}/{{}} ({{:.0f}}%)]\\tLoss: {{:.6f}} ({{:.1f}} s)".format(
                    epoch,
                    batch_idx * len(data),
                    len(sampler),
                    100.0 * batch_idx / len(loader),
                    loss.item(),
                    time.time() - started,
                )
            )


def validate(model, loader, sampler, device):
    model.eval()
    test_loss = 0.0
    test_accuracy = 0.0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            test_accuracy += output.argmax(dim=1).eq(target).float().sum().item()
    test_loss = metric_average(test_loss / len(sampler), "avg_loss")
    test_accuracy = metric_average(test_accuracy / len(sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"Test set: average loss {{test_loss:.4f}}, accuracy {{100.0 * test_accuracy:.2f}}%")
    return test_accuracy


def main():
    hvd.init()
    torch.manual_seed(args.seed)
    cuda = not args.no_cuda and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(hvd.local_rank())
        torch.cuda.manual_seed(args.seed)
    device = torch.device("cuda" if cuda else "cpu")
    verbose = 1 if hvd.rank() == 0 else 0

    dataset = torch.utils.data.TensorDataset(torch.randn(512, 3, 32, 32), torch.randint({a}0, (512,)))
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)

    model = Net().to(device)
    lr_scaler = hvd.size() if not args.use_adasum else 1
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * lr_scaler, momentum=0.{b})
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
{wrap}
    best = 0.0
    for epoch in range(args.epochs):
        train(epoch, model, optimizer, loader, sampler, device)
        accuracy = validate(model, loader, sampler, device)
        if hvd.rank() == 0 and accuracy > best:
            best = accuracy
            torch.save({{"model": model.state_dict(), "epoch": epoch}}, args.checkpoint_format.format(epoch=epoch))
        elif verbose:
            print(f"epoch {{epoch}}: {{accuracy:.3f}} is not better than {{best:.3f}}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--checkpoint-format", default="./checkpoint-{{epoch}}.pth.tar", help="checkpoint file format")
    parser.add_argument("--batch-size", type=int, default=3{b}, help="input batch size for training")
    parser.add_argument("--epochs", type=int, default={a}0, help="number of epochs to train")
    parser.add_argument("--base-lr", type=float, default=0.01{b}, help="learning rate for a single GPU")
    parser.add_argument("--warmup-epochs", type=float, default={b}, help="number of warmup epochs")
    parser.add_argument("--log-interval", type=int, default={a}, help="batches between two lines of progress")
    parser.add_argument("--no-cuda", action="store_true", default=False, help="disables CUDA training")
    parser.add_argument("--use-adasum", action="store_true", default=False, help="do not scale the learning rate")
    parser.add_argument("--seed", type=int, default=4{b}, help="random seed")
    args = parser.parse_args()
    main()
"""

STEPS = (
    "        optimizer.step()",
    """\
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()""",
)

WRAPS = (
    "    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())",
    """\
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.none,
        op=hvd.Average,
    )""",
    """\
    compression = hvd.Compression.fp16 if cuda else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=compression
    )""",
)

NAMES = ("text", "image", "speech", "sensor", "market", "genome", "traffic", "weather")


def generate(folder: Path, count: int, uses_horovod: bool) -> None:
    """Write ``count`` modules of 100 to 600 lines, each in a folder of its own: programs of one file."""
    for number in range(count):
        home = folder / f"program{number:03}"
        home.mkdir(parents=True)
        (home / "train.py").write_text(module(number, uses_horovod), encoding="utf-8")


def module(number: int, uses_horovod: bool) -> str:
    """The text of one module; the same for the same ``number``."""
    chance = random.Random(number)
    return "\n".join(_sections(chance, uses_horovod))


def _sections(chance: random.Random, uses_horovod: bool) -> Iterator[str]:
    purpose = "training" if uses_horovod else "functions that training scripts share"
    yield HEAD.format(title=chance.choice(NAMES).title(), purpose=purpose) + (IMPORTS if uses_horovod else "")
    names = chance.sample(NAMES, chance.randint(0, 6) if uses_horovod else chance.randint(2, 8))
    for name in names:
        yield "\n" + HELPERS.format(name=name, title=name.title(), a=chance.randint(2, 9), b=chance.randint(1, 9))
    if uses_horovod:
        wrap, step = chance.choice(
            [(WRAPS[0], STEPS[0]), (WRAPS[0], STEPS[1]), (WRAPS[1], STEPS[1]), (WRAPS[2], STEPS[0])]
        )
        yield USING.format(a=chance.randint(2, 9), b=chance.randint(1, 9), wrap=wrap, step=step)
