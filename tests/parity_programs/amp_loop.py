"""Mixed precision with a gradient scaler, unscaled and clipped."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
generator = torch.Generator().manual_seed(20 + hvd.rank())
for step in range(6):
    x = torch.randn(8, 10, generator=generator).to(device)
    y = torch.randint(0, 2, (8,), generator=generator).to(device)
    optimizer.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
print(f"rank {hvd.rank()}: scale {scaler.get_scale()}")
