"""The model computes its loss in a method of its own."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))

    def loss(self, x, y):
        return F.cross_entropy(self(x), y)


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    torch.manual_seed(120 + hvd.rank())
    losses = []
    for step in range(8):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
