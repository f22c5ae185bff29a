"""Two losses on one forward, each with its own backward."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=2
)

torch.manual_seed(130 + hvd.rank())
losses = []
for step in range(8):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward(retain_graph=True)
    penalty = output.square().mean()
    penalty.backward()
    optimizer.step()
    losses.append((loss + penalty).item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
