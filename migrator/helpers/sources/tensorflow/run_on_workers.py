import multiprocessing
import multiprocessing.connection
import socket
from collections.abc import Callable
from typing import Any

from migrator.helpers.tensorflow.become_worker import become_worker


def run_on_workers(
    function: Callable, args: tuple = (), kwargs: Any = None, num_processes: int = 1, hosts: str = ""
) -> list:
    """Run ``function`` on ``num_processes`` workers of this machine and return their results."""
    if any(host.split(":")[0] not in ("", "localhost", "127.0.0.1") for host in (hosts or "").split(",")):
        raise NotImplementedError("start this program with its launcher on every host")
    servers = [socket.create_server(("localhost", 0)) for _ in range(num_processes)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    spawn = multiprocessing.get_context("spawn")
    workers, results, found = [], [], {}
    for index in range(num_processes):
        receiver, sender = spawn.Pipe(duplex=False)
        given = (index, addresses, sender, function, args, kwargs or {})
        workers.append(spawn.Process(target=become_worker, args=given))
        workers[-1].start()
        sender.close()
        results.append(receiver)
    try:
        waiting = dict(enumerate(results))
        while waiting:
            for receiver in multiprocessing.connection.wait(list(waiting.values())):
                index = results.index(receiver)
                found[index] = receiver.recv()
                del waiting[index]
        return [found[index] for index in range(num_processes)]
    except EOFError:
        raise RuntimeError("a worker failed: what it printed says why") from None
    finally:
        for worker in workers:
            worker.join(timeout=10 if len(found) == num_processes else 0)
            worker.kill()
