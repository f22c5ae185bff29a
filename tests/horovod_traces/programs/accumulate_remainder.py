"""Gradient accumulation over two batches; the seventh batch is left over and makes a step of its own."""
import hashlib

import torch
import torch.nn as nn
import horovod.torch as hvd

ACCUMULATE = 2


def train(model, optimizer, batches):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        loss = nn.functional.mse_loss(model(x), y)
        (loss / ACCUMULATE).backward()
        print(f"TRACE loss{i} {loss.item().hex()}")
        if (i + 1) % ACCUMULATE == 0 or i + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=ACCUMULATE,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    torch.manual_seed(50 + hvd.rank())
    batches = [(torch.randn(3, 6), torch.randn(3, 2)) for _ in range(7)]
    train(model, optimizer, batches)

    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())
    print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
