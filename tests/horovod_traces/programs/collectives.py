"""Values exchanged outside of training: objects, uneven gathers, broadcasts, a barrier."""
import os

import torch
import horovod.torch as hvd


def main():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    print("TRACE place", rank, size, hvd.local_rank(), hvd.local_size())

    config = {"lr": 0.1, "layers": [64, 32]} if rank == 0 else None
    config = hvd.broadcast_object(config, root_rank=0, name="config")
    print("TRACE config", sorted(config.items()))
    print("TRACE from_last", hvd.broadcast_object(f"rank {rank}", root_rank=size - 1, name="last"))

    rows = torch.arange(2 * (rank + 1), dtype=torch.float32).reshape(rank + 1, 2) + 10 * rank
    gathered = hvd.allgather(rows, name="rows")
    print("TRACE gathered", list(gathered.shape), gathered.tolist())
    empty = torch.arange(3 * rank)
    print("TRACE gathered_some_empty", hvd.allgather(empty, name="empty").tolist())
    print("TRACE gathered_objects", hvd.allgather_object({"rank": rank, "seen": list(range(rank))}, name="objects"))

    value = torch.full((3,), float(rank + 1))
    print("TRACE broadcast", hvd.broadcast(value, root_rank=1, name="copy").tolist(), value.tolist())
    hvd.broadcast_(value, root_rank=0, name="in_place")
    print("TRACE broadcast_in_place", value.tolist())
    value += rank
    hvd.allreduce_(value, name="mean_in_place")
    print("TRACE mean_in_place", value.tolist())
    print("TRACE maximum", hvd.allreduce(torch.tensor([rank, -rank]), op=hvd.Max, name="max").tolist())
    print("TRACE minimum", hvd.allreduce(torch.tensor([rank, -rank]), op=hvd.Min, name="min").tolist())

    if rank == 0:
        with open("ready.txt", "w") as out:
            out.write("ready")
    hvd.barrier()
    print("TRACE ready", os.path.exists("ready.txt"))
    hvd.shutdown()


if __name__ == "__main__":
    main()
