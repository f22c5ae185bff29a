"""Gradient clipping: wait for the averaged gradients, clip, then step without a second reduction."""
import hashlib

import torch
import torch.nn as nn
import horovod.torch as hvd

CLIP = 0.25


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    torch.manual_seed(30 + hvd.rank())
    for step in range(6):
        x, y = torch.randn(5, 6), torch.randint(0, 4, (5,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.synchronize()
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        with optimizer.skip_synchronize():
            optimizer.step()
        print(f"TRACE loss{step} {loss.item().hex()}")
        print(f"TRACE norm{step} {norm.item().hex()}")

    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
