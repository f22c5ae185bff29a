"""Resume: the first worker reads the checkpoint, the others get weights and Adam's moments from it."""
import hashlib
import os

import torch
import torch.nn as nn
import horovod.torch as hvd

CHECKPOINT = "checkpoint.pt"


def build():
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def write_checkpoint():
    model, optimizer = build()
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()
    torch.save({"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, CHECKPOINT)


hvd.init()
torch.manual_seed(hvd.rank())
if hvd.rank() == 0:
    write_checkpoint()

model, optimizer = build()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
start = 0
if hvd.rank() == 0 and os.path.exists(CHECKPOINT):
    checkpoint = torch.load(CHECKPOINT)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["epoch"]
start = hvd.broadcast(torch.tensor(start), root_rank=0, name="start").item()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
print("TRACE start", start)

torch.manual_seed(90 + hvd.rank())
for step in range(start, start + 6):
    x, y = torch.randn(4, 6), torch.randn(4, 1)
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    print(f"TRACE loss{step} {loss.item().hex()}")

print("TRACE adam_steps", [int(s["step"]) for s in optimizer.state_dict()["state"].values()])
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
