"""Functions that end in other ways on one rank than on the other."""

import time

import horovod.spark
from pyspark.sql import SparkSession
from sparkdl import HorovodRunner

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()


def fails_late():
    import horovod.torch as hvd

    hvd.init()
    if hvd.rank() == 1:
        time.sleep(3)
        raise ValueError("a bad batch")
    return "done"


def ends_late(rank):
    import horovod.torch as hvd

    hvd.init()
    if hvd.rank() == rank:
        time.sleep(3)
    mine = hvd.rank()
    hvd.shutdown()
    return mine


def ranks_and_variable(scale):
    import os

    import horovod.torch as hvd

    hvd.init()
    return hvd.rank() * scale, os.environ["ASKED_FOR"]


def ask(name, function, *arguments, **options):
    try:
        print(f"RESULT {name} = {function(*arguments, **options)}")
    except Exception as error:
        print(f"RESULT {name} = {type(error).__name__}")


processes = 2
runner = HorovodRunner(np=-processes)


def value_of(function, **options):
    return runner.run(function, **options)


ask("late failure", value_of, fails_late)
ask("rank 0 is first", value_of, ends_late, rank=1)


def values():
    return horovod.spark.run(ranks_and_variable, args=(3,), num_proc=2, env={"ASKED_FOR": "yes"}, verbose=2)


ask("all values", values)
spark.stop()
