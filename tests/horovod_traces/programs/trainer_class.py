"""A Trainer that keeps the model and the optimizer as attributes."""
import hashlib

import horovod.torch as hvd
import torch
import torch.nn as nn


class Trainer:
    def __init__(self, lr=0.05):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, nesterov=True)
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        self.optimizer = hvd.DistributedOptimizer(
            self.optimizer, named_parameters=self.model.named_parameters()
        )
        self.history = []

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.history.append(loss.item())

    def fit(self, steps):
        for _ in range(steps):
            self.step(torch.randn(4, 4), torch.randn(4, 2))

    def average_loss(self):
        mean = torch.tensor(sum(self.history) / len(self.history))
        return hvd.allreduce(mean, name="loss").item()

    def save(self, path):
        if hvd.rank() == 0:
            torch.save(self.model.state_dict(), path)

    def digest(self):
        weights = b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())
        return hashlib.sha256(weights).hexdigest()


if __name__ == "__main__":
    hvd.init()
    torch.manual_seed(hvd.rank())
    trainer = Trainer(lr=0.05)
    torch.manual_seed(10 + hvd.rank())
    trainer.fit(6)
    for i, value in enumerate(trainer.history):
        print(f"TRACE loss{i} {value.hex()}")
    print("TRACE average", trainer.average_loss().hex())
    trainer.save("trainer.pt")
    if hvd.rank() == 0:
        print("TRACE saved", sorted(torch.load("trainer.pt")))
    print("TRACE weights", trainer.digest())
