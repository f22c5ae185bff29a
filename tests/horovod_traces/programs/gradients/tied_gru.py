"""A language model whose output layer shares the weights of its embedding."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd

WORDS = 20


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, WORDS, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, words):
        output, _ = self.gru(self.embedding(words))
        return self.out(output)


def train(model, optimizer):
    for step in range(6):
        words = torch.randint(0, WORDS, (4, 7))
        optimizer.zero_grad()
        output = model(words[:, :-1])
        loss = F.cross_entropy(output.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        print(f"TRACE loss{step} {loss.item().hex()}")


if __name__ == "__main__":
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    torch.manual_seed(150 + hvd.rank())
    train(model, optimizer)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())
