"""A bad batch has no backward, but the optimizer steps."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


def is_good(step, rank):
    return step % 3 != 2


hvd.init()
torch.manual_seed(hvd.rank())
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(200 + hvd.rank())
losses = []
for step in range(8):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if is_good(step, hvd.rank()):
        loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
