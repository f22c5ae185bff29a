"""A generator and a discriminator, each with an optimizer of its own."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
maker = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.ReLU(), torch.nn.Linear(12, 6)).to(device)
judge = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.LeakyReLU(), torch.nn.Linear(12, 1)).to(device)
maker_optimizer = torch.optim.Adam(maker.parameters(), lr=0.002, betas=(0.5, 0.999))
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=0.002, betas=(0.5, 0.999))
hvd.broadcast_parameters(maker.state_dict(), root_rank=0)
hvd.broadcast_parameters(judge.state_dict(), root_rank=0)
maker_optimizer = hvd.DistributedOptimizer(maker_optimizer, named_parameters=maker.named_parameters())
judge_optimizer = hvd.DistributedOptimizer(judge_optimizer, named_parameters=judge.named_parameters())
generator = torch.Generator().manual_seed(60 + hvd.rank())
for step in range(4):
    real = torch.randn(8, 6, generator=generator).to(device)
    noise = torch.randn(8, 4, generator=generator).to(device)
    for parameter in judge.parameters():
        parameter.requires_grad_(True)
    judge_optimizer.zero_grad()
    fake = maker(noise).detach()
    scores = judge(torch.cat([real, fake]))
    wanted = torch.cat([torch.ones(8, 1), torch.zeros(8, 1)]).to(device)
    F.binary_cross_entropy_with_logits(scores, wanted).backward()
    judge_optimizer.step()
    for parameter in judge.parameters():
        parameter.requires_grad_(False)
    maker_optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(judge(maker(noise)), torch.ones(8, 1, device=device)).backward()
    maker_optimizer.step()
