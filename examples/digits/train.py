"""Train a small classifier of noisy digits. The data is generated, nothing is downloaded."""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from reporting import log, metric_average
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

# Seven-segment shapes: which of the segments a..g each digit lights.
SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc1 = nn.Linear(7, hidden)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def make_digits(count, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = torch.tensor([[float(s in lit) for s in "abcdefg"] for lit in SEGMENTS])
    labels = torch.randint(10, (count,), generator=generator)
    noise = torch.randn(count, 7, generator=generator) * 0.3
    return TensorDataset(shapes[labels] + noise, labels)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--checkpoint", default="digits.pt")
    return parser.parse_args()


def train(args, model, optimizer, loader, sampler, epoch, device):
    model.train()
    sampler.set_epoch(epoch)
    for batch, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        if batch % 10 == 0:
            log(f"epoch {epoch} [{batch * args.batch_size}/{len(sampler)}] loss {loss.item():.4f}")


def test(model, loader, sampler, device):
    model.eval()
    loss, correct = 0.0, 0.0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(images)
            loss += F.nll_loss(output, labels, reduction="sum").item()
            correct += (output.argmax(dim=1) == labels).sum().item()
    # Each worker has seen its own part of the test set.
    loss = metric_average(loss / len(sampler), "avg_loss")
    accuracy = metric_average(correct / len(sampler), "avg_accuracy")
    log(f"test: loss {loss:.4f}, accuracy {accuracy:.1%}")


def main():
    args = parse_args()

    # Horovod: initialize the library, pin one GPU to each process.
    hvd.init()
    torch.manual_seed(args.seed)
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_set, test_set = make_digits(4096, seed=1), make_digits(1024, seed=2)
    train_sampler = DistributedSampler(train_set, num_replicas=hvd.size(), rank=hvd.rank())
    test_sampler = DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
    test_loader = DataLoader(test_set, batch_size=args.batch_size, sampler=test_sampler)

    model = Net(args.hidden).to(device)
    # Horovod: the batch grows with the number of workers, and the learning rate with it.
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)

    # Horovod: all workers start from the same weights and average their gradients.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(1, args.epochs + 1):
        train(args, model, optimizer, train_loader, train_sampler, epoch, device)
        test(model, test_loader, test_sampler, device)
        if hvd.rank() == 0:
            torch.save({"model": model.state_dict(), "epoch": epoch}, args.checkpoint)


if __name__ == "__main__":
    main()
