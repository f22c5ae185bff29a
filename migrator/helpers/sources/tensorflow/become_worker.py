import json
import os


def become_worker(index, addresses, results, function, args, kwargs):
    """Run ``function`` as worker ``index`` of those at ``addresses``, and send what it returns."""
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    os.environ.update(RANK=str(index), WORLD_SIZE=str(len(addresses)))
    os.environ.update(LOCAL_RANK=str(index), LOCAL_WORLD_SIZE=str(len(addresses)))
    results.send(function(*args, **kwargs))
