"""An embedding whose gradients are sparse."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.EmbeddingBag(30, 8, sparse=True), torch.nn.Linear(8, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
generator = torch.Generator().manual_seed(50 + hvd.rank())
for step in range(6):
    tokens = torch.randint(0, 30, (6, 4), generator=generator).to(device)
    y = torch.randint(0, 3, (6,), generator=generator).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(tokens), y).backward()
    optimizer.step()
