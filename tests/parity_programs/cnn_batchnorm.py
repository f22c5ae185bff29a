"""A convolutional network with batch norm and a decaying Adam; rank 0 evaluates."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.head(x.flatten(1))


def main():
    hvd.init()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(100 + hvd.rank())
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    generator = torch.Generator().manual_seed(hvd.rank())
    for step in range(6):
        x = torch.randn(6, 1, 8, 8, generator=generator).to(device)
        y = torch.randint(0, 3, (6,), generator=generator).to(device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    if hvd.rank() == 0:
        model.eval()
        with torch.no_grad():
            print(f"held out {model(torch.ones(2, 1, 8, 8, device=device)).sum().item():.6f}")


main()
