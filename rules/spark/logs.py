"""HVD502 log-to-driver: a line for the driver's output is a line of output.

TorchDistributor shows what the workers print. Horovod cut messages at 4000 characters.

Example:

```python
log_to_driver(f"loss {loss:.3f}")
```

Use instead:

```python
print(f"loss {loss:.3f}", flush=True)
```
"""

from migrator.api import Context, Finding, RefusalError, Site, expression, rule


@rule("HVD502", "log-to-driver", symbols=["sparkdl.horovod.log_to_driver"])
def log_to_driver(site: Site, context: Context) -> Finding:
    if site.call is None:
        return site.replace(expression("print"), class_="review", message="log_to_driver → print: see that it flushes")
    message = site.arguments("message").get("message")
    if message is None:
        raise RefusalError("the call does not say what it logs")
    return site.replace(expression("print({message}, flush=True)", message=message))


@rule("HVD502", "log-to-driver", symbols=["sparkdl.horovod.tensorflow.keras.LogCallback"])
def log_callback(site: Site, context: Context) -> Finding:
    """LogCallback does so for Keras, in a format of its own: that is explained."""
    raise RefusalError("LogCallback logs Keras' epochs to the driver: print them, in a callback of your own")
