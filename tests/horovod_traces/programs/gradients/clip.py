"""The averaged gradients are clipped."""
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
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)

torch.manual_seed(60 + hvd.rank())
norms = []
for step in range(8):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    optimizer.zero_grad()
    loss = 5 * F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.synchronize()
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item().hex())
    with optimizer.skip_synchronize():
        optimizer.step()

print("TRACE norms", *norms)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
