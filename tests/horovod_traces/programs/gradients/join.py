"""Workers have different numbers of batches; one that is through joins, and the others go on."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

EPOCHS = 1

hvd.init()
torch.manual_seed(hvd.rank())
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(160 + hvd.rank())
batches = [(torch.randn(6, 8), torch.randint(0, 4, (6,))) for _ in range(6 if hvd.rank() == 0 else 10)]
for epoch in range(EPOCHS):
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    hvd.join()

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
