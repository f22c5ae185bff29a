"""Start the workers of a TensorFlow program, as ``horovodrun -np N`` did; needs nothing but Python 3.8.

    python launch_workers.py -np 4 train.py --epochs 3
    python launch_workers.py --hosts one:4,two:4 --host-index 0 train.py      (on each host, with its own index)

Each worker gets TF_CONFIG, and RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK and GROUP_WORLD_SIZE as
torchrun sets them. What a worker prints is shown with its rank before each line. When one fails, the others are ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO

GRACE = 5.0  # seconds between asking workers to end and killing them


def main() -> int:
    """Start this host's workers, wait for them, and return the first exit code that is not 0."""
    options = parsed()
    hosts = hosts_of(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ports(hosts, options.port) as addresses:
        own = range(hosts[options.host_index][1])
        environments = [worker(local, hosts, options.host_index, addresses) for local in own]
    command = [*([sys.executable] if options.program.endswith(".py") else []), options.program, *options.arguments]
    workers, readers = [], []
    try:
        for each in environments:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            workers.append(subprocess.Popen(command, env=each, start_new_session=True, **pipes))
            readers.append(threading.Thread(target=show, args=(workers[-1].stdout, each["RANK"]), daemon=True))
            readers[-1].start()
        return watched(workers)
    finally:
        end(workers)
        for reader in readers:
            reader.join(GRACE)


def hosts_of(options: argparse.Namespace) -> list[tuple[str, int]]:
    """All hosts by name, with their numbers of workers."""
    if not options.hosts:
        return [("localhost", options.np)]
    parts = (host.partition(":") for host in options.hosts.split(","))
    return [(name, int(slots or 1)) for name, _, slots in parts]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Start the workers of a TensorFlow program.")
    parser.add_argument("-np", type=int, default=1, help="workers on this host, where no hosts are named")
    parser.add_argument("--hosts", default="", help="all hosts with their numbers of workers: NAME:N,NAME:N")
    parser.add_argument("--host-index", type=int, default=0, help="which of the hosts this is, counted from 0")
    parser.add_argument("--port", type=int, default=12340, help="first port of each host, where several are named")
    parser.add_argument("program", help="a Python file, or a command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


@contextlib.contextmanager
def ports(hosts, first):
    """Where each worker listens: free ports of this machine, or numbered ones where there are several hosts."""
    if len(hosts) > 1:
        yield [f"{name}:{first + number}" for name, slots in hosts for number in range(slots)]
        return
    held = [socket.create_server(("localhost", 0)) for _ in range(hosts[0][1])]
    yield [f"localhost:{server.getsockname()[1]}" for server in held]
    for server in held:
        server.close()


def worker(local, hosts, host, addresses) -> dict:
    """The environment of worker ``local`` of a host."""
    rank = sum(slots for _, slots in hosts[:host]) + local
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    numbers = {
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": len(addresses),
        "LOCAL_WORLD_SIZE": hosts[host][1],
        "GROUP_RANK": host,
        "GROUP_WORLD_SIZE": len(hosts),
    }
    named = {name: str(number) for name, number in numbers.items()}
    return {**os.environ, **named, "TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1"}


def show(stream: IO[bytes], rank: str) -> None:
    """Write the lines of a worker with its rank."""
    for line in stream:
        sys.stdout.buffer.write(f"[{rank}] ".encode() + line)
        sys.stdout.buffer.flush()


def watched(workers) -> int:
    """Wait until all workers have ended well, or one has not; return its exit code."""
    while True:
        codes = [each.poll() for each in workers]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            return abs(failed[0]) if failed else 0
        time.sleep(0.1)


def end(workers) -> None:
    """End the workers that run, and whatever they have started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for each in workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, sign)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(each.poll() is None for each in workers):
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
