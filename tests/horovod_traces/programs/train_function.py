"""Training in a function that gets its model, optimizer and loader as parameters."""
import hashlib

import torch
import horovod.torch as hvd
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(5, 10)
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def train(model, optimizer, scheduler, loader, epoch):
    model.train()
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"TRACE loss{epoch}.{i} {loss.item().hex()}")
    scheduler.step()


def make_loader(size, rank):
    generator = torch.Generator().manual_seed(3)
    data = TensorDataset(torch.randn(18, 5, generator=generator), torch.randint(0, 2, (18,), generator=generator))
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)
    return DataLoader(data, batch_size=3, sampler=sampler)


if __name__ == "__main__":
    hvd.init()
    torch.manual_seed(hvd.rank())
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=0.01 * hvd.size())
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(opt, root_rank=0)
    opt = hvd.DistributedOptimizer(opt, named_parameters=net.named_parameters())
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
    batches = make_loader(hvd.size(), hvd.rank())
    for n in range(2):
        train(net, opt, sched, batches, n)
        print(f"TRACE lr{n} {opt.param_groups[0]['lr'].hex()}")
    weights = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())
    print("TRACE norm", sum(p.double().abs().sum().item() for p in net.parameters()).hex())
