"""Reductions and exchanges written by hand around a plain optimizer."""
import torch
import torch.nn.functional as F

import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(hvd.rank())
options = hvd.broadcast_object({"lr": 0.1} if hvd.rank() == 0 else None, root_rank=0, name="options")
model = torch.nn.Linear(6, 3).to(device)
for name, parameter in sorted(model.named_parameters()):
    hvd.broadcast_(parameter.data, root_rank=0, name=name)
optimizer = torch.optim.SGD(model.parameters(), lr=options["lr"])
generator = torch.Generator().manual_seed(80 + hvd.rank())
for step in range(5):
    x = torch.randn(4 + hvd.rank(), 6, generator=generator).to(device)
    y = torch.randint(0, 3, (4 + hvd.rank(),), generator=generator).to(device)
    optimizer.zero_grad()
    scores = model(x)
    loss = F.cross_entropy(scores, y)
    loss.backward()
    for name, parameter in model.named_parameters():
        hvd.allreduce_(parameter.grad, name=f"grad.{name}")
    optimizer.step()
    right = (scores.argmax(1) == y).sum()
    counts = hvd.allreduce(torch.stack([right, torch.tensor(len(y), device=device)]), name="counts", op=hvd.Sum)
    largest = hvd.allreduce(scores.detach().max(), name="largest", op=hvd.Max)
    guesses = hvd.allgather(scores.argmax(1), name="guesses")
    if hvd.rank() == 0:
        print(f"step {step}: {counts.tolist()} {largest.item():.6f} {guesses.tolist()}")
everyone = hvd.allgather_object({"rank": hvd.rank(), "loss": round(loss.item(), 6)})
if hvd.rank() == 0:
    print(everyone)
