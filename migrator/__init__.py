"""hvd-migrate: move Horovod training code to what replaced it."""

__version__ = "0.1.0"
