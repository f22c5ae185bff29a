"""Under HorovodRunner: the distributor of Spark that starts DeepSpeed programs, in the place of TorchDistributor."""

from __future__ import annotations

from dataclasses import replace

from migrator.api import Context, Finding, Replace, Template

from ..torch.names import WRAPPER
from .names import DISTRIBUTOR

TORCH = "TorchDistributor"
KEYWORDS = {"local_mode=": "localMode=", "use_gpu=": "useGpu="}


def by_deepspeed(found: Finding, context: Context) -> Finding:
    """``found``, which starts a function by TorchDistributor, for the target that the settings name.

    Only the product of GPUs and nodes counts: that many processes are started, on the driver or as tasks.
    """
    if context.settings.target != "deepspeed" or not context.uses(WRAPPER):
        return found
    edits = [replace(e, template=_call(e.template)) if isinstance(e, Replace) else e for e in found.edits]
    imports = [DISTRIBUTOR if needed.name == TORCH else needed for needed in found.imports]
    notes = [found.message.replace(TORCH, DISTRIBUTOR.name)]
    if any(module.index.attributes["parse_args"] for module in context.modules):
        notes.append("it appends --deepspeed to the workers' arguments: a parser that reads them must know that option")
    return replace(found, edits=tuple(edits), imports=tuple(imports), message="; ".join(notes))


def _call(template: Template) -> Template:
    text = template.text.replace(f"{TORCH}(", f"{DISTRIBUTOR.name}(")
    for old, new in KEYWORDS.items():
        text = text.replace(old, new)
    if "localMode=False" in text:
        text = text.replace("num_processes=", "numGpus=1, nnodes=")
    else:
        text = text.replace("num_processes=", "numGpus=").replace(", localMode=", ", nnodes=1, localMode=")
    return replace(template, text=text)
