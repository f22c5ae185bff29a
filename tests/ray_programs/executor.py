import json

import horovod.torch as hvd
import ray
import torch
from horovod.ray import RayExecutor


def train(steps, lr=0.1):
    hvd.init()
    torch.manual_seed(7 + hvd.rank())
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(steps):
        optimizer.zero_grad()
        inputs = torch.arange(6.0).reshape(2, 3) / 10 + hvd.rank() + step
        model(inputs).pow(2).mean().mul(0.01).backward()
        optimizer.step()
    total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum).item()
    weights = [w for p in model.parameters() for w in p.detach().flatten().tolist()]
    number = hvd.rank()
    hvd.shutdown()
    return number, total, weights


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=2)
    executor.start()
    print(json.dumps(executor.run(train, args=[5], kwargs={"lr": 0.05})), flush=True)
    executor.shutdown()
    ray.shutdown()
