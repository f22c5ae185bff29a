"""Put before every other program here: prints the answer to one question as ``TRACE key answer``."""

import warnings

import torch

import horovod.torch as hvd

T = torch.tensor


def show(value):
    if isinstance(value, torch.Tensor) and value.is_sparse:
        return f"sparse({value._indices().tolist()}, {value._values().tolist()}, {value.is_coalesced()})"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}:{value.tolist()}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    return repr(value)


def ask(key, question):
    try:
        answer = show(question())
    except Exception as error:
        [text, *_] = str(error).splitlines() or [""]
        answer = f"RAISED {type(error).__name__}: {text}"
    print("TRACE", key, answer, flush=True)


def told(question):
    """The answer, and what Horovod warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        answer = question()
    return answer, sorted({f"{one.category.__name__}: {one.message}" for one in found})


def gradient(question):
    """The result for a tensor that needs a gradient, and the gradient."""
    x = (T([1.0, 2.0]) * (hvd.rank() + 1)).requires_grad_()
    y = question(x)
    (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum().mul(hvd.rank() + 1).backward()
    return y.detach(), x.grad
