"""A convolutional network with batch norm; the first worker evaluates it in the end."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def train(model, optimizer, batches):
    model.train()
    for images, labels in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def evaluate(model):
    model.eval()
    generator = torch.Generator().manual_seed(5)
    images, labels = torch.randn(6, 2, 8, 8, generator=generator), torch.arange(6) % 3
    with torch.no_grad():
        print("TRACE evaluation", F.cross_entropy(model(images), labels).item().hex())


def digest(tensors):
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    torch.manual_seed(20 + hvd.rank())
    batches = [(torch.randn(4, 2, 8, 8), torch.randint(0, 3, (4,))) for _ in range(6)]
    train(model, optimizer, batches)
    if hvd.rank() == 0:
        evaluate(model)
    print("TRACE weights", digest(model.parameters()))
    print("TRACE buffers", digest(model.buffers()))


if __name__ == "__main__":
    main()
