"""An encoder and a decoder under one optimizer."""
import hashlib
from itertools import chain

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    decoder = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    hvd.broadcast_parameters(encoder.state_dict(), root_rank=0)
    hvd.broadcast_parameters(decoder.state_dict(), root_rank=0)
    named = chain(encoder.named_parameters(prefix="encoder"), decoder.named_parameters(prefix="decoder"))
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)

    torch.manual_seed(190 + hvd.rank())
    losses = []
    for step in range(8):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        loss = F.cross_entropy(decoder(encoder(x)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())

    print("TRACE losses", *losses)
    weights = b"".join(p.detach().numpy().tobytes() for m in (encoder, decoder) for p in m.parameters())
    print("TRACE weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
