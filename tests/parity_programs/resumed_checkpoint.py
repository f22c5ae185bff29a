"""Trains, saves on rank 0, and goes on from that checkpoint with a new model and optimizer."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd


def train(model, optimizer, first, steps):
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(1000 * hvd.rank() + step)
        x = torch.randn(8, 7, generator=generator).to(device)
        y = torch.randint(0, 3, (8,), generator=generator).to(device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def build(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(7, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return model, optimizer


hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model, optimizer = build(hvd.rank())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
train(model, optimizer, 0, 3)
if hvd.rank() == 0:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "resumed.pt")

model, optimizer = build(50 + hvd.rank())
if hvd.rank() == 0:
    checkpoint = torch.load("resumed.pt", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
train(model, optimizer, 3, 3)
