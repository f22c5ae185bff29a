"""Regression with a small MLP."""
import hashlib

import torch
import torch.nn.functional as F
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())

if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

# Horovod: scale the learning rate by the number of workers.
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

torch.manual_seed(100 + hvd.rank())
for step in range(6):
    data, target = torch.randn(4, 8), torch.randn(4, 1)
    optimizer.zero_grad()
    loss = F.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    print(f"TRACE loss{step} {loss.item().hex()}")

if hvd.rank() == 0:
    print(f"TRACE workers {hvd.size()}")

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())
