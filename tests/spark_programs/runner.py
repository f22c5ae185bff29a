"""A function that HorovodRunner starts on two ranks of the driver."""

from pyspark.sql import SparkSession
from sparkdl import HorovodRunner

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()


def train(lr):
    import torch
    import torch.nn.functional as F

    import horovod.torch as hvd

    hvd.init()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2)).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    generator = torch.Generator().manual_seed(90 + hvd.rank())
    for step in range(5):
        x = torch.randn(7, 6, generator=generator).to(device)
        y = torch.randint(0, 2, (7,), generator=generator).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return hvd.allreduce(loss.detach(), name="loss").item()


hr = HorovodRunner(np=-2)
print(f"loss {hr.run(train, lr=0.05):.6f}")
spark.stop()
