"""The optimizer is given a closure that computes loss and gradients."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(110 + hvd.rank())
for step in range(4):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
