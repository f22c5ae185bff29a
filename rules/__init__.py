"""The knowledge: one module per Horovod concept."""
