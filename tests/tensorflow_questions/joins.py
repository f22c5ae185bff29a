import time

hvd.init()
r = hvd.rank()


def joined():
    found = [hvd.allreduce(C([10.0 * (r + 1) + k]), name=f"j{k}") for k in range(r + 1)]
    return found, hvd.join()


def joined_integers():
    found = [hvd.allreduce(C([10 * (r + 1) + k]), name=f"i{k}", op=op) for k, op in enumerate((hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product)[: 1 + 4 * r])]
    return found, hvd.join()


def alone(question):
    """What rank 1 is told when rank 0 has joined already."""
    answer = None
    try:
        if r == 1:
            answer = question()
    finally:
        hvd.join()
    return answer


ask("floats", joined)
ask("integers", joined_integers)
ask("gather", lambda: alone(lambda: hvd.allgather(C([1.0]))))
ask("broadcast", lambda: alone(lambda: hvd.broadcast(C([1.0]), 0)))
ask("scatter", lambda: alone(lambda: hvd.reducescatter(C([1.0, 2.0]))))
ask("group", lambda: alone(lambda: hvd.grouped_allreduce([C([1.0]), C([2.0])])))
time.sleep(0.4 * r)
ask("graph", lambda: in_function(lambda: hvd.join()))
ask("after", lambda: hvd.allreduce(C([1.0 + r])))
