import time

hvd.init()
r = hvd.rank()


def later(question):
    """What rank 0 asks first, as errors name the first rank first."""
    time.sleep(PAUSE * r)
    return question()


ones = tf.ones
ask("shape", lambda: later(lambda: hvd.allreduce(ones(2 + r), name="shape")))
ask("dimensions", lambda: later(lambda: hvd.allreduce(ones([2] if r == 0 else [2, 1]), name="dimensions")))
ask("dtype", lambda: later(lambda: hvd.allreduce(ones(2, tf.float64 if r else tf.float32), name="dtype")))
ask("reduction", lambda: later(lambda: hvd.allreduce(ones(2), op=hvd.Max if r else hvd.Sum, name="reduction")))
ask("factors", lambda: later(lambda: hvd.allreduce(ones(2), prescale_factor=1.0 + r, name="factors")))
ask("root", lambda: later(lambda: hvd.broadcast(ones(2), r, name="root")))
ask("sent", lambda: later(lambda: hvd.broadcast(ones(2 + r), 0, name="sent")))
ask("tail", lambda: later(lambda: hvd.allgather(ones([2, 2 + r]), name="tail")))
ask("gathered", lambda: later(lambda: hvd.allgather(ones([2] if r == 0 else [2, 1]), name="gathered")))
ask("tails", lambda: later(lambda: hvd.alltoall(ones([2, 2 + r]), name="tails")))
ask("rows", lambda: later(lambda: hvd.reducescatter(ones(2 + r), name="rows")))
ask("group", lambda: later(lambda: hvd.grouped_allreduce([ones(1), ones(2 + r)], name="group")))
ask("graph", lambda: later(lambda: in_function(lambda: hvd.allreduce(ones(2 + r), name="graph"))))
ask("goes_on", lambda: hvd.allreduce(ones(2) * r, name="shape"))
