"""What the first worker says, and numbers that are means over all workers."""

import horovod.torch as hvd
import torch


def log(message):
    # One line per event, not one per worker.
    if hvd.rank() == 0:
        print(message, flush=True)


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()
