"""The first layer is frozen for some steps, then trained as well."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return self.out(torch.relu(self.features(x)))


hvd.init()
torch.manual_seed(hvd.rank())
model = Net()
for p in model.features.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(180 + hvd.rank())
losses = []
for step in range(8):
    if step == 4:
        for p in model.features.parameters():
            p.requires_grad = True
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
