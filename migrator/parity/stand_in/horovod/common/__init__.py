"""What Horovod shares between frameworks: processes, names, process sets, errors."""
