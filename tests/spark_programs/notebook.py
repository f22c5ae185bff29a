# Databricks notebook source
# MAGIC %md
# MAGIC # A notebook whose function HorovodRunner starts in a Spark job

# COMMAND ----------

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from pyspark.sql import SparkSession
from sparkdl import HorovodRunner

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

# COMMAND ----------

# DBTITLE 1,Model
class Net(torch.nn.Module):
    def __init__(self, width=9):
        super().__init__()
        self.first = torch.nn.Linear(6, width)
        self.second = torch.nn.Linear(width, 2)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def batches(count):
    generator = torch.Generator().manual_seed(40 + hvd.rank())
    for _ in range(count):
        yield torch.randn(7, 6, generator=generator), torch.randint(0, 2, (7,), generator=generator)

# COMMAND ----------

# MAGIC %sql SELECT 1

# COMMAND ----------

def train_hvd(lr, steps):
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for x, y in batches(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    loss = hvd.allreduce(loss.detach(), name="loss").item()
    hvd.shutdown()
    return {"loss": round(loss, 6)}

# COMMAND ----------

hr = HorovodRunner(np=2, driver_log_verbosity="all")
print(hr.run(train_hvd, lr=0.05, steps=4))

# COMMAND ----------

spark.stop()
