"""What the engine itself reports, beside the rules: each with an ID and a page, as rules have."""

from __future__ import annotations

from migrator.registry import REGISTRY, Rule

UNREADABLE = "HVD001"
ESCAPES = "HVD002"
STAR = "HVD003"
OPTIONAL = "HVD004"
STRING = "HVD005"
UNUSED_IGNORE = "HVD006"
OUTSIDE = "HVD007"
IMPORT = "HVD008"
CHECK = "HVD009"
OTHER_KIND = "HVD010"
NOTEBOOK = "HVD015"
UNKNOWN = "HVD900"

_PAGES = {
    UNREADABLE: (
        "unreadable",
        "a file that cannot be read is named and left",
        "Bytes that are not text in the declared encoding, broken or Python 2 syntax, a file without read\n"
        "permission: the file stays as it is, the rest of the run goes on, and the exit status is 2. A program\n"
        "that imports the file is not written, since the file may use Horovod.",
    ),
    ESCAPES: (
        "module-as-value",
        "a Horovod module is used as a value",
        "``helper(hvd)`` and ``self.hvd = hvd`` are followed: where everything that a variable, a parameter or an\n"
        "attribute may be given is the module, its uses are migrated, and the argument, parameter or assignment\n"
        "goes. Where nothing may be given instead (``hvd=None``) and the program asks for it\n"
        "(``if hvd is not None``), it becomes a flag, ``is_distributed``. ``getattr(hvd, name)``, ``del hvd``,\n"
        "``hvd.rank = ...``, a function whose callers are not in sight or that is also given something else\n"
        "hand Horovod to code that cannot be followed, which blocks the program: call the functions by name\n"
        "where they are needed, then migrate.",
    ),
    STAR: (
        "star-import",
        "a star import hides which names come from Horovod",
        "``from horovod.torch import *`` binds some sixty names, ``size``, ``rank`` and ``join`` among them; those\n"
        "that rules know are followed. A name that nothing in the file binds and no rule knows may come from there\n"
        "too, which blocks the program: import it by name, then migrate.",
    ),
    OPTIONAL: (
        "bound-twice",
        "a name means Horovod only sometimes",
        "``hvd`` is imported in one branch and bound to something else in another, so what a use of it means is\n"
        "decided at run time. The program is blocked. ``hvd = None`` after a failed import does not block: the\n"
        "import of PyTorch does not fail, and what the program notes of its success is always so, which a\n"
        "reviewer should know.",
    ),
    STRING: (
        "named-in-string",
        "a string names Horovod",
        "A configuration value ``'horovod'``, the target of a mock or a module imported by name outlives a\n"
        "rewrite of the imports. Strings stay as they are; an import by name blocks the program.",
    ),
    UNUSED_IGNORE: (
        "unused-ignore",
        "an ignore comment silences nothing",
        "``# hvd: ignore[HVDnnn]`` silences findings of that rule on its line. One that silences nothing is\n"
        "reported, so that it can be taken out.",
    ),
    OUTSIDE: (
        "outside",
        "a file of the program lies outside the given paths",
        "A program moves whole or not at all. Files outside the given paths are read, never written: where such a\n"
        "file uses Horovod, the program is blocked until its path is given too.",
    ),
    IMPORT: (
        "unused-import",
        "an import of Horovod that nothing uses goes",
        "The statement is removed; where it was the only one of its block, ``pass`` takes its place.",
    ),
    CHECK: (
        "not-written",
        "the result failed a check",
        "Two edits claim one place, or the rewritten file would not parse, would use a name that nothing binds,\n"
        "would lose a comment or would still use Horovod. Nothing of the program is written.",
    ),
    OTHER_KIND: (
        "other-kind",
        "a file beside the code mentions Horovod",
        "A text that names Horovod, and neither starts nor installs anything with it, is named and left as it is.\n"
        "So is a notebook in another language than Python, in a format before 4, or that names Horovod in text or\n"
        "output only.",
    ),
    NOTEBOOK: (
        "notebook-magic",
        "a line or cell of a notebook that is not Python has to do with Horovod",
        "``%pip install horovod`` and shell lines stay as they are: take Horovod out by hand. Python after ``%time``,\n"
        "``%timeit`` and their like, and in ``%%time`` cells, is migrated; that of other magics is not looked into,\n"
        "and one that uses Horovod blocks the notebook, as does a cell that writes a program (``%%writefile``).",
    ),
    UNKNOWN: (
        "no-rule",
        "a Horovod symbol that no rule migrates",
        "The use is named and its program is not written, because two communication runtimes in one process are\n"
        "worse than no migration. With ``--partial`` everything else is rewritten and the use keeps its text\n"
        "under a TODO line.",
    ),
}

for _id, (_name, _title, _body) in _PAGES.items():
    REGISTRY.add(Rule(_id, _name, (), None, f"{_id} {_name}: {_title}.\n\n{_body}"))
