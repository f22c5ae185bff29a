"""Ranks with different numbers of batches, joined at the end of the epoch."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
generator = torch.Generator().manual_seed(70 + hvd.rank())
for batch in range(3 + 2 * hvd.rank()):
    x = torch.randn(4, 5, generator=generator).to(device)
    y = torch.randint(0, 2, (4,), generator=generator).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
hvd.join()
