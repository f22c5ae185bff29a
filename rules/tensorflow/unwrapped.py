"""What Horovod wrapped, without the wrapper."""

from migrator.api import Remove, Replace, Site, cst, expression


def unwrapped(inner: cst.BaseExpression, site: Site) -> Remove | Replace:
    """``inner`` in the place of the call that wraps it; nothing where a name would be given to itself."""
    target = site.assigned_to
    is_same = isinstance(inner, cst.Name) and isinstance(target, cst.Name) and inner.value == target.value
    if is_same and site.statement is not None:
        return Remove(site.statement)
    return Replace(site.target, expression("{inner}", inner=inner))
