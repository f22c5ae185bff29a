"""Adasum, which torch.distributed does not have, where it is one branch of a flag."""

from migrator.api import Finding, Replace, Site, cst, expression

from .options import NO_ADASUM, operations_of


def raising(site: Site, operation: cst.BaseExpression | None) -> Finding | None:
    """The statement under ``if use_adasum:`` becomes an error; None where Adasum is not the choice of a flag."""
    if operation is None or operations_of(operation, site.module) != {"Adasum"}:
        return None
    statement = site.statement
    if statement is None or not _is_chosen(site):
        return None
    message = "Adasum has no counterpart: the program raises an error when the flag asks for it"
    return site.found("review", message, [Replace(statement, expression(f'raise NotImplementedError("{NO_ADASUM}")'))])


def _is_chosen(site: Site) -> bool:
    """Whether the site stands in the branch that a test of Adasum leads to."""
    inner: cst.CSTNode = site.target
    for holder in site.module.index.ancestors(site.target):
        if isinstance(holder, cst.If) and inner is holder.body:
            return "adasum" in site.module.source(holder.test).lower()
        if isinstance(holder, cst.FunctionDef):
            return False
        inner = holder
    return False
