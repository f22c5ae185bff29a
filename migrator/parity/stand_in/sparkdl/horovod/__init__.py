"""What a rank can tell the driver."""

LONGEST = 4000


def log_to_driver(message: str) -> None:
    """Print a message, of which the driver shows the first 4000 characters."""
    print(message[:LONGEST], flush=True)
