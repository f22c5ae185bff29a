"""What a worker is told about hosts; the stand-in's never change."""

from enum import IntFlag


class HostUpdateResult(IntFlag):
    """Kinds of changes, as bits."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added
