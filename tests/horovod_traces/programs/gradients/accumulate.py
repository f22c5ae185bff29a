"""Gradients of two batches are accumulated before each step."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

ACCUMULATE = 2
BATCHES = 12


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=ACCUMULATE
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    torch.manual_seed(50 + hvd.rank())
    losses = []
    optimizer.zero_grad()
    for i in range(BATCHES):
        x, y = torch.randn(4, 8), torch.randint(0, 4, (4,))
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item().hex())
        if (i + 1) % ACCUMULATE == 0 or i + 1 == BATCHES:
            optimizer.step()
            optimizer.zero_grad()

    print("TRACE losses", *losses)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
