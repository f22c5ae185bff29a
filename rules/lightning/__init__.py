"""Rules for frameworks that choose Horovod by a string."""
