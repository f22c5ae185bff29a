"""Both heads always run; the second one's loss is added every other step."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.head = nn.Linear(16, 3)
        self.auxiliary = nn.Linear(16, 6)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.head(x), self.auxiliary(x)


hvd.init()
torch.manual_seed(hvd.rank())
model = TwoHeads()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(40 + hvd.rank())
losses = []
for step in range(8):
    x, y = torch.randn(6, 6), torch.randint(0, 3, (6,))
    optimizer.zero_grad()
    scores, restored = model(x)
    loss = F.cross_entropy(scores, y)
    if step % 2 == 0:
        loss = loss + 0.1 * F.mse_loss(restored, x)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
