"""HVD208 compressors: ``compress`` and ``decompress`` become the casts that they are.

``Compression.fp16.compress(t)`` returns a floating tensor as float16, any other as it is, and the dtype to go back to;
``Compression.none`` returns what it is given. A compressor of one's own has no counterpart at the optimizer: DDP takes
a communication hook (``register_comm_hook``) that compresses, reduces and decompresses a bucket of gradients.

Example:

```python
small, dtype = hvd.Compression.fp16.compress(tensor)
tensor = hvd.Compression.fp16.decompress(small, dtype)
```

Use instead:

```python
small, dtype = (tensor.half() if tensor.is_floating_point() else tensor, tensor.dtype)
tensor = small.to(dtype)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from migrator.api import Context, Finding, Module, RefusalError, Site, cst, dotted_name, expression, planner, rule

from ..values import possible_values, symbol_of

CHOSEN = "horovod.torch.Compression.chosen"
_OWN = "horovod.torch.Compression"


@rule("HVD208", "compressors", symbols=["horovod.torch.Compression.fp16.compress"])
def compress(site: Site, context: Context) -> Finding:
    tensor = _tensor(site)
    if not isinstance(tensor, (cst.Name, cst.Attribute)):
        raise RefusalError("what is compressed is computed in the call: give the tensor a name first")
    text = "({tensor}.half() if {tensor}.is_floating_point() else {tensor}, {tensor}.dtype)"
    return site.replace(expression(text, tensor=tensor))


@rule("HVD208", "compressors", symbols=["horovod.torch.Compression.fp16.decompress"])
def decompress(site: Site, context: Context) -> Finding:
    arguments = _arguments(site, "tensor", "ctx")
    if set(arguments) != {"tensor", "ctx"}:
        raise RefusalError("the call does not say what it decompresses, or to which dtype")
    return site.replace(expression("{tensor}.to({ctx})", **arguments))


@rule("HVD208", "compressors", symbols=["horovod.torch.Compression.none.compress"])
def keep(site: Site, context: Context) -> Finding:
    return site.replace(expression("({tensor}, None)", tensor=_tensor(site)))


@rule("HVD208", "compressors", symbols=["horovod.torch.Compression.none.decompress"])
def give_back(site: Site, context: Context) -> Finding:
    arguments = _arguments(site, "tensor", "ctx")
    if "tensor" not in arguments or not isinstance(arguments.get("ctx"), (cst.Name, cst.Attribute)):
        raise RefusalError("Compression.none.decompress returns its tensor; the context is computed in the call")
    return site.replace(expression("{tensor}", tensor=arguments["tensor"]))


def _arguments(site: Site, *names: str) -> Mapping[str, cst.BaseExpression]:
    if site.call is None:
        method = site.symbol.removeprefix("horovod.torch.")
        raise RefusalError(f"{method} is passed on as a value: call it on the tensor, or cast there")
    return site.arguments(*names)


def _tensor(site: Site) -> cst.BaseExpression:
    arguments = _arguments(site, "tensor")
    if "tensor" not in arguments:
        raise RefusalError("the call does not say what it compresses")
    return arguments["tensor"]


OWN = {
    "horovod.torch.Compressor": (
        "Compressor is the base of compressors of one's own: write a communication hook that compresses, reduces and "
        "decompresses a bucket, and hand it to DDP's register_comm_hook"
    ),
    "horovod.torch.Compressor.compress": "Compressor.compress returns nothing itself: compress in DDP's hook",
    "horovod.torch.Compressor.decompress": "Compressor.decompress returns nothing itself: decompress in DDP's hook",
}


@rule("HVD208", "compressors", symbols=list(OWN))
def own_compressor(site: Site, context: Context) -> Finding:
    raise RefusalError(OWN[site.symbol])


@rule("HVD208", "compressors", symbols=[CHOSEN])
def chosen(site: Site, context: Context) -> Finding:
    assert isinstance(site.node, cst.Attribute)
    raise RefusalError(
        f"which compression this {site.node.attr.value} is of is decided elsewhere; a compression becomes a dtype or "
        "None, which have no such method: cast the tensor here, with .to(dtype)"
    )


@planner
def plan_compressors(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the methods of compressions that a variable chooses."""
    if not any(site.symbol.startswith(_OWN) for site in context.sites):
        return (), ()
    return (), [site for module in context.modules for site in _chosen(module)]


def _chosen(module: Module) -> Iterator[Site]:
    for name in ("compress", "decompress"):
        for node in module.index.attributes[name]:
            call = module.index.parent(node)
            if isinstance(call, cst.Call) and call.func is node and _is_compression(node.value, module):
                scope = module.index.scope_of(node)
                yield Site(CHOSEN, node, call, module, scope, module.index.scope)


def _is_compression(node: cst.BaseExpression, module: Module) -> bool:
    if symbol_of(node, module):
        return False
    symbols = [symbol_of(value, module) for value in possible_values(node, module) if value is not None]
    known = any("Compression" in symbol or "Compressor" in symbol for symbol in symbols)
    return known or "compress" in dotted_name(node).rpartition(".")[2].lower()
