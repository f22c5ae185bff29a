"""An engine as DeepSpeed documents it, for suites that run where DeepSpeed is not installed.

It does what ``deepspeed.initialize`` with a torch optimizer and ZeRO stage 0 does, its defaults included, and reduces
in methods of the same names, by which the recorder knows what is reduced. The real one is held to the same weights
where there is one.
"""

import torch
import torch.distributed as dist


def initialize(*, model, optimizer, config):
    """An engine that starts from rank 0's parameters, the optimizer, and nothing twice."""
    return Engine(model, optimizer, config), optimizer, None, None


class Engine(torch.nn.Module):
    """Averages, clips, steps and zeroes."""

    def __init__(self, model, optimizer, config):
        super().__init__()
        self.module = model
        self.optimizer = optimizer
        self.steps = config["gradient_accumulation_steps"]
        self.norm = config.get("gradient_clipping", 1.0)
        self.is_managed = config.get("managed_gradient_accumulation", True)
        self.dtype = torch.float16 if config.get("communication_data_type") == "fp16" else torch.float32
        self.backwards = 0
        self._broadcast_model()
        assert config["train_micro_batch_size_per_gpu"] > 0

    def _broadcast_model(self):
        for parameter in self.module.parameters():
            dist.broadcast(parameter.detach(), 0)

    def forward(self, *arguments, **options):
        return self.module(*arguments, **options)

    def backward(self, loss):
        (loss / self.steps).backward()
        self.backwards += 1
        if self.is_managed and self.backwards % self.steps == 0:
            self.reduce()

    def reduce(self):
        for parameter in (p for p in self.module.parameters() if p.requires_grad):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self.allreduce_bucket(parameter.grad)

    def allreduce_bucket(self, gradient):
        sent = gradient.to(self.dtype)
        dist.all_reduce(sent)
        gradient.copy_(sent / dist.get_world_size())

    def step(self):
        if self.is_managed and self.backwards % self.steps:
            return
        if not self.is_managed:
            self.reduce()
        if self.norm > 0:
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.norm)
        self.optimizer.step()
        self.zero_grad(set_to_none=True)
