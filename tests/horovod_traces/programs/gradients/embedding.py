"""Text classification with sparse gradients of the embedding."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

VOCABULARY = 50


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8, sparse=True)
        self.fc = nn.Linear(8, 3)

    def forward(self, words):
        return self.fc(torch.tanh(self.embedding(words).mean(1)))


hvd.init()
torch.manual_seed(hvd.rank())
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

torch.manual_seed(80 + hvd.rank())
losses = []
for step in range(8):
    words, labels = torch.randint(0, VOCABULARY, (8, 5)), torch.randint(0, 3, (8,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(words), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())

print("TRACE losses", *losses)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
