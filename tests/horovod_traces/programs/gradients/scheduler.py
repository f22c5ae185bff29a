"""The learning rate follows a schedule."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    torch.manual_seed(170 + hvd.rank())
    losses = []
    for step in range(8):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    print("TRACE lr", optimizer.param_groups[0]["lr"].hex())
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
