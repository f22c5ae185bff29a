"""What Lightning does otherwise for DDP than for Horovod, without an error."""

from __future__ import annotations

from migrator.api import Context, Finding, Site, cst, rule

from .plan import COUNT, GATHER, SYNC


@rule("HVD562", "lightning-devices", symbols=[COUNT])
def devices(site: Site, context: Context) -> Finding:
    """HVD562 lightning-devices: how many devices and hosts there are is the Trainer's to know.

    Under Horovod ``devices=1`` or ``gpus=1`` was one for each process of ``horovodrun``, which said how many there
    were. With DDP Lightning starts a process for each device of ``devices``, on each of ``num_nodes`` hosts.

    Example:

    ```python
    trainer = pl.Trainer(strategy="horovod", accelerator="gpu", devices=1)
    ```
    """
    if isinstance(site.node, cst.Call):
        message = "horovodrun said how many ranks there are: give devices and num_nodes (or devices='auto')"
    else:
        message = (
            "this was one for each process of horovodrun: set devices and num_nodes to the real numbers of devices and "
            "hosts (or devices='auto')"
        )
    return site.found("review", message)


@rule("HVD563", "lightning-differences", symbols=[GATHER, SYNC])
def differences(site: Site, context: Context) -> Finding:
    """HVD563 lightning-differences: what Lightning does otherwise for DDP than it did for Horovod.

    ``self.all_gather`` joined the ranks' tensors along their first dimension; for DDP they get a new first dimension,
    of the number of ranks: ``.flatten(0, 1)`` makes one of the other, and a scalar comes out alike. ``sync_batchnorm``
    had no effect.
    """
    if site.symbol == SYNC:
        return site.found("review", "sync_batchnorm had no effect under Horovod, and synchronizes BatchNorm for ddp")
    message = "all_gather gives a new first dimension, one for each rank, where Horovod concatenated: .flatten(0, 1)"
    return site.found("review", message)
