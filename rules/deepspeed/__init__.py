"""Rules for ``--target deepspeed``: the training loop by an engine of DeepSpeed."""
