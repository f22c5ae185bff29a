"""A head that this run never uses; weight decay still acts on it."""
import hashlib

import torch
import torch.nn as nn
import horovod.torch as hvd


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 2)
        self.auxiliary = nn.Linear(8, 1)

    def forward(self, x, auxiliary=False):
        x = torch.relu(self.body(x))
        return (self.head(x), self.auxiliary(x)) if auxiliary else self.head(x)


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    before = model.auxiliary.weight.detach().clone()

    torch.manual_seed(110 + hvd.rank())
    for step in range(6):
        x, y = torch.randn(4, 6), torch.randint(0, 2, (4,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"TRACE loss{step} {loss.item().hex()}")

    decay = (model.auxiliary.weight.detach() / before).mean().item()
    print("TRACE auxiliary_moved", decay < 0.999)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())
    print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
