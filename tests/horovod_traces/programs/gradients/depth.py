"""Only the first layers of a network are run."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.out = nn.Linear(8, 4)

    def forward(self, x, depth):
        for layer in self.layers[:depth]:
            x = torch.relu(layer(x))
        return self.out(x)


hvd.init()
torch.manual_seed(hvd.rank())
model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(230 + hvd.rank())
losses = []
for step in range(8):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, depth=2), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
