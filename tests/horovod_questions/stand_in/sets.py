import os
import time

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
first, two = hvd.ProcessSet([0]), hvd.ProcessSet([1, 0])
n = int(os.environ.get("HOROVOD_SIZE") or os.environ["WORLD_SIZE"])
hvd.init(process_sets=[first, two] if n == 3 else [first])
r = hvd.rank()
KINDS = {
    "reduce": lambda group: hvd.allreduce(torch.tensor([1.0 + r]), name="reduce", process_set=group),
    "in_place": lambda group: hvd.allreduce_(torch.tensor([1.0 + r]), name="in_place", process_set=group),
    "group": lambda group: hvd.grouped_allreduce([torch.tensor([1.0 + r]), torch.tensor([r])], name="group", process_set=group),
    "gather": lambda group: hvd.allgather(torch.tensor([1.0 + r]), name="gather", process_set=group),
    "broadcast": lambda group: hvd.broadcast(torch.tensor([1.0 + r]), group.ranks[-1], name="broadcast", process_set=group),
    "broadcast.elsewhere": lambda group: hvd.broadcast(torch.tensor([1.0]), 2, name="broadcast.elsewhere", process_set=group),
    "exchange": lambda group: hvd.alltoall(torch.tensor([1.0 + r, 2.0, 3.0]), splits=[1] * len(group.ranks), name="exchange", process_set=group),
    "scatter": lambda group: hvd.reducescatter(torch.tensor([1.0 + r, 2.0]), name="scatter", process_set=group),
    "barrier": lambda group: hvd.barrier(process_set=group),
    "object": lambda group: hvd.broadcast_object(("from", r), group.ranks[0], name="object", process_set=group),
    "adasum": lambda group: hvd.allreduce(torch.ones(1), op=hvd.Adasum, name="adasum", process_set=group),
}


def ask_about(name, group):
    ask(name, lambda: (group.process_set_id, group.ranks, group.included(), str(group)))
    ask(f"{name}.size", lambda: group.size())
    ask(f"{name}.rank", lambda: group.rank())
    for kind, collective in KINDS.items():
        ask(f"{name}.{kind}", lambda: collective(group))


ask_about("first", first)
if n == 3:
    ask_about("two", two)
    ask("two.is_all", lambda: hvd.add_process_set([2, 1, 0]))
ask("all", lambda: (hvd.global_process_set.process_set_id, hvd.global_process_set.ranks, hvd.global_process_set.included()))
hvd.barrier()
ask("too_late", lambda: hvd.init(process_sets=[hvd.ProcessSet([1])]))
added = hvd.add_process_set([1])
ask_about("added", added)
ask("added.again", lambda: hvd.add_process_set(hvd.ProcessSet([1])))
hvd.barrier()
ask("removed", lambda: hvd.remove_process_set(added))
ask("removed.twice", lambda: hvd.remove_process_set(added))
ask("removed.all", lambda: hvd.remove_process_set(hvd.global_process_set))
ask("removed.state", lambda: (added.process_set_id, added.ranks, added.included(), added.size()))
ask("removed.reduce", lambda: hvd.allreduce(torch.ones(1), name="removed", process_set=added))
ask("not_registered", lambda: hvd.allreduce(torch.ones(1), name="unregistered", process_set=hvd.ProcessSet([0, 1])))
again = hvd.add_process_set([1])
ask("number", lambda: again.process_set_id)
layer = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.ones_(layer.weight)
sgd = torch.optim.SGD(layer.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(sgd, named_parameters=layer.named_parameters(), process_set=first)
layer(torch.tensor([[1.0 + r]])).sum().backward()
optimizer.step()
ask("trained", lambda: (layer.weight.detach(), layer.weight.grad))
ask("same_name", lambda: [hvd.synchronize(hvd.allreduce_async(torch.tensor([1.0 + r]), name="both")), r == 0 and hvd.allreduce(torch.tensor([5.0]), name="both", process_set=first)])
ask("ranks", lambda: hvd.ProcessSet(["a"]))
ask("ranks.number", lambda: hvd.ProcessSet(1))
hvd.barrier()
hvd.shutdown()
ask("ended", lambda: (first.process_set_id, first.ranks))
ask("ended.size", lambda: first.size())
time.sleep(2)  # Horovod aborts if a rank starts again while another one still ends
del os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"]
ask("duplicates", lambda: hvd.init(process_sets=[hvd.ProcessSet([1]), hvd.ProcessSet([1])]))
os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
ask("restarted", lambda: (first.process_set_id, hvd.global_process_set.ranks))
ask("restarted.reduce", lambda: hvd.allreduce(torch.tensor([1.0 + r])))
ask("static", lambda: hvd.add_process_set([0]))
ask("static.remove", lambda: hvd.remove_process_set(first))
