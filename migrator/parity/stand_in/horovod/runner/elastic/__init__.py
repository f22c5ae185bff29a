"""A part of Horovod's launcher that programs do not use."""
