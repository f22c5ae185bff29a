"""A generator and a discriminator, each with its optimizer."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import horovod.torch as hvd


def digest(tensors):
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()


def main():
    hvd.init()
    torch.manual_seed(hvd.rank())
    netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
    netD = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    hvd.broadcast_parameters(netG.state_dict(), root_rank=0)
    hvd.broadcast_parameters(netD.state_dict(), root_rank=0)
    optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizerG = hvd.DistributedOptimizer(optimizerG, named_parameters=netG.named_parameters(prefix="G"))
    optimizerD = hvd.DistributedOptimizer(
        optimizerD, named_parameters=netD.named_parameters(prefix="D"), backward_passes_per_step=1
    )

    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    torch.manual_seed(70 + hvd.rank())
    losses = []
    for step in range(8):
        real, noise = torch.randn(8, 10), torch.randn(8, 4)
        for p in netD.parameters():
            p.requires_grad_(True)
        netD.zero_grad()
        fake = netG(noise)
        errD = criterion(netD(real), ones) + criterion(netD(fake.detach()), zeros)
        errD.backward()
        optimizerD.step()

        for p in netD.parameters():
            p.requires_grad_(False)
        netG.zero_grad()
        errG = criterion(netD(fake), ones)
        errG.backward()
        optimizerG.step()
        losses += [errG.item().hex()]

    print("TRACE losses", *losses)
    print("TRACE weights", digest([*netG.parameters(), *netD.parameters()]))
    print("TRACE buffers", digest([*netG.buffers(), *netD.buffers()]))


if __name__ == "__main__":
    main()
