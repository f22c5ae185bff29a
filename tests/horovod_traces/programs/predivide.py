"""gradient_predivide_factor splits the averaging before and after the sum."""
import hashlib

import torch
import torch.nn.functional as F
import horovod.torch as hvd


def build_optimizer(model, predivide=4.0):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average,
                                    gradient_predivide_factor=predivide)


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = build_optimizer(model)

    torch.manual_seed(70 + hvd.rank())
    for step in range(6):
        data, target = torch.randn(4, 8), torch.randn(4, 1)
        optimizer.zero_grad()
        loss = F.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print(f"TRACE loss{step} {loss.item().hex()}")

    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())
    print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
