"""Rules for Horovod on Spark."""

from migrator.api import answers_for

answers_for("sparkdl.HorovodRunner", "sparkdl.horovod")
