"""Optional fp16 compression of the gradients on the wire, switched off."""
import hashlib

import torch
import torch.nn.functional as F
import horovod.torch as hvd

FP16_ALLREDUCE = False

hvd.init()
torch.manual_seed(hvd.rank())

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)

# Horovod: (optional) compression algorithm.
compression = hvd.Compression.fp16 if FP16_ALLREDUCE else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(optimizer,
                                     named_parameters=model.named_parameters(),
                                     compression=compression)

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

torch.manual_seed(60 + hvd.rank())
for step in range(6):
    data, target = torch.randn(4, 8), torch.randint(0, 4, (4,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    print(f"TRACE loss{step} {loss.item().hex()}")

weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("TRACE weights", hashlib.sha256(weights).hexdigest())
print("TRACE norm", sum(p.double().abs().sum().item() for p in model.parameters()).hex())
