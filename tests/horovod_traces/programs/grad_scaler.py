"""Loss scaling with a GradScaler."""
import hashlib

import horovod.torch as hvd
import torch
import torch.nn.functional as F

hvd.init()
torch.manual_seed(hvd.rank())

model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)

torch.manual_seed(40 + hvd.rank())
for step in range(6):
    data, target = torch.randn(4, 6), torch.randint(0, 3, (4,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    if step == 2 and hvd.rank() == 1:
        loss = loss * float("inf")  # a bad batch on one worker: every worker skips this step
    scaler.scale(loss).backward()
    # all gradients must be reduced before they are unscaled
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    print(f"TRACE loss{step} {loss.item().hex()}")
    print(f"TRACE scale{step} {scaler.get_scale()}")

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())
