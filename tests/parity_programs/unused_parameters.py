"""A layer that only every second step uses, and weight decay."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Linear(6, 10)
        self.extra = torch.nn.Linear(10, 10)
        self.head = torch.nn.Linear(10, 3)

    def forward(self, x, with_extra):
        x = F.relu(self.stem(x))
        if with_extra:
            x = x + self.extra(x)
        return self.head(x)


hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
model = Gated().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
generator = torch.Generator().manual_seed(40 + hvd.rank())
for step in range(6):
    x = torch.randn(5, 6, generator=generator).to(device)
    y = torch.randint(0, 3, (5,), generator=generator).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(x, step % 2 == 0), y).backward()
    optimizer.step()
