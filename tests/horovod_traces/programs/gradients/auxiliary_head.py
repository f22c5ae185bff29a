"""A second head that takes part only in some steps."""
import hashlib

import torch
import torch.nn as nn
import horovod.torch as hvd


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.head = nn.Linear(16, 3)
        self.auxiliary = nn.Linear(6, 3)

    def forward(self, x, auxiliary):
        y = self.head(torch.relu(self.body(x)))
        return y + self.auxiliary(x) if auxiliary else y


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.05)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    torch.manual_seed(30 + hvd.rank())
    losses = []
    for step in range(10):
        x, y = torch.randn(6, 6), torch.randint(0, 3, (6,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, auxiliary=False), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
