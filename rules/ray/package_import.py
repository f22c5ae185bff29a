"""``import ray.train.horovod``, which stays where the program uses the rest of Ray through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrator.api import Context, Finding, Module, Replace, Site, cst, dotted_name, expression, planner, rule

from .names import TRAINER

PACKAGE = TRAINER.rpartition(".")[0]
IMPORT = "ray.import"


@planner
def plan_package_imports(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the imports of Ray's package for Horovod by which other parts of Ray are used."""
    modules = [module for module in context.modules if _uses_the_rest(module)] if context.uses(TRAINER) else []
    return (), [site for module in modules for site in _imports(module)]


def _uses_the_rest(module: Module) -> bool:
    names = (_whole_name(reference.node, module) for reference in module.index.references["ray"])
    return any(not f"{name}.".startswith(f"{PACKAGE}.") for name in names)


def _whole_name(node: cst.BaseExpression, module: Module) -> str:
    holder = module.index.parent(node)
    while isinstance(holder, cst.Attribute) and holder.value is node:
        node, holder = holder, module.index.parent(holder)
    return dotted_name(node)


def _imports(module: Module) -> Iterator[Site]:
    scopes = (module.index.scope, *module.index.scopes.values())
    for binding in (b for scope in scopes for b in scope.bindings.get("ray", ())):
        alias = binding.node
        if isinstance(alias, cst.ImportAlias) and dotted_name(alias.name) == PACKAGE and alias.asname is None:
            yield Site(IMPORT, alias.name, None, module, binding.scope, module.index.scope)


@rule("HVD551", "horovod-trainer", symbols=[IMPORT])
def package_import(site: Site, context: Context) -> Finding:
    message = "import ray.train.horovod → ray.train, through which the file uses the rest of Ray"
    return site.found("review", message, [Replace(site.node, expression("ray.train"))])
