"""An embedding whose gradients are sparse."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.EmbeddingBag(30, 8, sparse=True), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
generator = torch.Generator().manual_seed(50 + hvd.rank())
for step in range(6):
    tokens = torch.randint(0, 30, (6, 4), generator=generator)
    y = torch.randint(0, 3, (6,), generator=generator)
    optimizer.zero_grad()
    F.cross_entropy(model(tokens), y).backward()
    optimizer.step()
