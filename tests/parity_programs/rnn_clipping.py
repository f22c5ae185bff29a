"""A recurrent network whose averaged gradients are clipped."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 8)
        self.rnn = torch.nn.GRU(8, 12, batch_first=True)
        self.head = torch.nn.Linear(12, 4)

    def forward(self, tokens):
        states, _ = self.rnn(self.embedding(tokens))
        return self.head(states)


model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
generator = torch.Generator().manual_seed(10 + hvd.rank())
for step in range(6):
    tokens = torch.randint(0, 20, (5, 7), generator=generator).to(device)
    tags = torch.randint(0, 4, (5, 7), generator=generator).to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
    loss.backward()
    optimizer.synchronize()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        optimizer.step()
    if hvd.rank() == 0:
        print(f"step {step}: norm {norm.item():.6f}")
