import json
import sys

import horovod.torch as hvd
import ray
import torch
from ray.train import ScalingConfig
from ray.train.horovod import HorovodConfig, HorovodTrainer


def train(config):
    hvd.init()
    torch.manual_seed(7 + hvd.rank())
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"] * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(config["steps"]):
        optimizer.zero_grad()
        inputs = torch.arange(6.0).reshape(2, 3) / 10 + hvd.rank() + step
        model(inputs).pow(2).mean().mul(0.01).backward()
        optimizer.step()
    weights = [w for p in model.parameters() for w in p.detach().flatten().tolist()]
    with open(f"{config['folder']}/{hvd.rank()}.json", "w") as file:
        json.dump(weights, file)
    hvd.shutdown()


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    trainer = HorovodTrainer(
        train,
        train_loop_config={"lr": 0.05, "steps": 5, "folder": sys.argv[1]},
        horovod_config=HorovodConfig(timeout_s=60),
        scaling_config=ScalingConfig(num_workers=2),
    )
    trainer.fit()
    ray.shutdown()
