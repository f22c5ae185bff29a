"""Gradients are summed, not averaged; each worker divides its loss by the global batch size."""
import hashlib

import torch
import torch.nn as nn
import horovod.torch as hvd

BATCH = 4

hvd.init()
torch.manual_seed(hvd.rank())

model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 3))
criterion = nn.CrossEntropyLoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

torch.manual_seed(80 + hvd.rank())
for step in range(6):
    inputs, labels = torch.randn(BATCH, 5), torch.randint(0, 3, (BATCH,))
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels) / (BATCH * hvd.size())
    loss.backward()
    optimizer.step()
    print(f"TRACE loss{step} {loss.item().hex()}")
    total = hvd.allreduce(loss.detach(), op=hvd.Sum, name="loss")
    print(f"TRACE total{step} {total.item().hex()}")

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())
