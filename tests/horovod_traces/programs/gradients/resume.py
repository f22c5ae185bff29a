"""Training goes on from a checkpoint that the first worker reads."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


def write_checkpoint(path):
    torch.manual_seed(99)
    earlier = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    trained = torch.optim.Adam(earlier.parameters(), lr=0.005)
    for _ in range(3):
        for p in earlier.parameters():
            p.grad = torch.randn_like(p)
        trained.step()
    torch.save({"model": earlier.state_dict(), "optimizer": trained.state_dict()}, path)


def digest(tensors):
    return hashlib.sha256(b"".join(torch.as_tensor(t).detach().numpy().tobytes() for t in tensors)).hexdigest()


def main():
    hvd.init()
    path = f"checkpoint{hvd.rank()}.pt"
    write_checkpoint(path)
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    if hvd.rank() == 0:
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    torch.manual_seed(220 + hvd.rank())
    losses = []
    for step in range(8):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    print("TRACE lr", optimizer.param_groups[0]["lr"])
    state = optimizer.state_dict()["state"]
    print("TRACE state", digest(value for i in sorted(state) for _, value in sorted(state[i].items()) if value is not None))
    print("TRACE weights", digest(model.parameters()))


if __name__ == "__main__":
    main()
