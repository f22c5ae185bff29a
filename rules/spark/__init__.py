"""Rules for Horovod on Spark."""

from migrator.api import also_known_as, answers_for

answers_for("sparkdl.HorovodRunner", "sparkdl.horovod")
also_known_as("sparkdl.HorovodRunner", "sparkdl.horovod.runner.HorovodRunner", "sparkdl.horovod.HorovodRunner")
