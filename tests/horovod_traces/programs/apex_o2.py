"""apex gives the optimizer copies of the parameters; here a small stand-in for it does."""
import hashlib
import sys
import types
from contextlib import contextmanager

import torch
import horovod.torch as hvd


def initialize(model, optimizer, opt_level):
    pairs = [(p, p.detach().clone().requires_grad_()) for p in model.parameters()]
    masters = {id(p): master for p, master in pairs}
    for group in optimizer.param_groups:
        group["params"] = [masters[id(p)] for p in group["params"]]
    optimizer.pairs = pairs
    return model, optimizer


@contextmanager
def scale_loss(loss, optimizer):
    yield loss * 4.0
    for p, master in optimizer.pairs:
        master.grad = p.grad / 4.0


sys.modules["apex"] = types.ModuleType("apex")
sys.modules["apex"].amp = types.SimpleNamespace(initialize=initialize, scale_loss=scale_loss)

from apex import amp

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")

torch.manual_seed(50 + hvd.rank())
for step in range(5):
    x = torch.randn(6, 8)
    with amp.scale_loss(model(x).pow(2).mean(), optimizer) as scaled_loss:
        scaled_loss.backward()
        optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()
    with torch.no_grad():
        for p, master in optimizer.pairs:
            p.copy_(master)
            p.grad = None

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
