"""CNN with batch norm; only the first worker evaluates and saves."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 3 * 3, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        return self.fc(x.flatten(1))


def evaluate():
    model.eval()
    generator = torch.Generator().manual_seed(5)
    images, labels = torch.randn(8, 1, 8, 8, generator=generator), torch.arange(8) % 3
    with torch.no_grad():
        output = model(images)
    print("TRACE eval_loss", F.cross_entropy(output, labels).item().hex())
    print("TRACE eval_correct", output.argmax(1).eq(labels).sum().item())


hvd.init()
torch.manual_seed(hvd.rank())
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * hvd.size(), momentum=0.9, weight_decay=1e-4)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)

torch.manual_seed(20 + hvd.rank())
for step in range(6):
    images, labels = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(f"TRACE loss{step} {loss.item().hex()}")

if hvd.rank() == 0:
    evaluate()
    torch.save(model.state_dict(), "cnn.pt")
    saved = torch.load("cnn.pt")
    print("TRACE saved", sorted(saved))
    print("TRACE running_mean", hashlib.sha256(saved["bn.running_mean"].numpy().tobytes()).hexdigest())

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
