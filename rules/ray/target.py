"""HVD557 target-ray: ``--target ray`` moves programs that Ray starts; of any other it says what is missing.

``horovodrun``, ``mpirun`` or Spark say how many ranks there are, outside the code; a ``TorchTrainer`` is told so in
it, by the driver, which is a program of its own. Which function it hands to the workers, and on how many, is for a
person to say: once the program has that function, Ray Train runs it as torchrun would.

Example:

```python
if __name__ == "__main__":
    main()
```

Use instead:

```python
if __name__ == "__main__":
    TorchTrainer(main, scaling_config=ScalingConfig(num_workers=4)).fit()
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from migrator.api import Context, Finding, RefusalError, Site, planner, rule

from .names import is_started_by_ray

UNTOLD = "hvd-migrate.target.ray"
STARTS = ("horovod.torch.init", "horovod.tensorflow.init", "sparkdl.HorovodRunner", "horovod.run", "horovod.spark.run")


@planner
def plan_target(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find where a program that Ray does not start is started, if it is to go to Ray."""
    if context.settings.target != "ray" or is_started_by_ray(context):
        return (), ()
    return (), [replace(site, symbol=UNTOLD) for symbol in STARTS for site in context.uses(symbol)]


@rule("HVD557", "target-ray", symbols=[UNTOLD])
def target_ray(site: Site, context: Context) -> Finding:
    raise RefusalError(
        "--target ray: what starts the ranks is not Ray, so which function they run, and how many, is not in the code: "
        "hand it to TorchTrainer(f, scaling_config=ScalingConfig(num_workers=N)).fit(), or migrate without --target"
    )
