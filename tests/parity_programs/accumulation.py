"""Gradients of two batches in one step, the last group incomplete."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(9, 14), torch.nn.ReLU(), torch.nn.Linear(14, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=2
)
generator = torch.Generator().manual_seed(30 + hvd.rank())
batches = [
    (torch.randn(4, 9, generator=generator), torch.randint(0, 3, (4,), generator=generator))
    for _ in range(9)
]
optimizer.zero_grad()
for number, (x, y) in enumerate(batches, 1):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y) / 2
    loss.backward()
    if number % 2 == 0 or number == len(batches):
        optimizer.step()
        optimizer.zero_grad()
