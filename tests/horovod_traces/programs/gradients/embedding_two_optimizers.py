"""Text classification: SparseAdam for the embedding, Adam for the rest."""
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


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = Classifier()
    sparse_optimizer = torch.optim.SparseAdam(list(model.embedding.parameters()), lr=0.01)
    dense_optimizer = torch.optim.Adam(model.fc.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sparse_optimizer = hvd.DistributedOptimizer(
        sparse_optimizer, named_parameters=model.embedding.named_parameters(prefix="embedding")
    )
    dense_optimizer = hvd.DistributedOptimizer(dense_optimizer, named_parameters=model.fc.named_parameters(prefix="fc"))

    torch.manual_seed(90 + hvd.rank())
    losses = []
    for step in range(8):
        words, labels = torch.randint(0, VOCABULARY, (8, 5)), torch.randint(0, 3, (8,))
        sparse_optimizer.zero_grad()
        dense_optimizer.zero_grad()
        loss = F.cross_entropy(model(words), labels)
        loss.backward()
        sparse_optimizer.step()
        dense_optimizer.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
