"""Notebooks: what is read of them, what is edited, and that everything else keeps its bytes."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.notebooks.magics import CutOffError, header_of, kind_of, pieces_of
from migrator.notebooks.text import Fragment
from migrator.result import Diagnostic, Result
from migrator.source import Source, SourceError, decode, encode

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
IMPORT = "import horovod.torch as hvd"


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 3, "metadata": {"a": 1}, "outputs": [], "source": source} | more


def notebook(*cells: str | list[str] | dict[str, Any], metadata: Any = PYTHON, **more: Any) -> dict[str, Any]:
    made = [cell if isinstance(cell, dict) else code(cell) for cell in cells]
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5} | more


def written(document: Any, **style: Any) -> bytes:
    return (json.dumps(document, **({"indent": 1, "ensure_ascii": False} | style)) + "\n").encode()


def sources(data: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data.decode("utf-8-sig"))["cells"]]


def run(data: bytes, name: str = "a.ipynb", **settings: Any) -> Result:
    return migrate_text(name, data, Settings(jobs=1, **settings))


def after(result: Result) -> bytes:
    (file,) = result.files
    return file.after


def said(result: Result, rule: str = "") -> list[tuple[int, int, str, str]]:
    return [(f.line, f.column, f.class_, f.message) for f in result.findings if rule in ("", f.rule)]


def read(*cells: str) -> Source:
    return decode("a.ipynb", written(notebook(*cells)))


def fragments(source: Source) -> tuple[Fragment, ...]:
    assert source.notebook is not None
    return source.notebook.module.fragments


MAGICS = [
    ("%pip install x", "magic"),
    ("!ls -l 'it", "magic"),
    ("!pip install a \\\n    b", "magic"),
    ("!!ls", "magic"),
    ("?obj", "magic"),
    ("obj?", "magic"),
    ("obj.attr??", "magic"),
    ("pip install x", "magic"),
    ("/f a", "magic"),
    ("%time for x in y: pass", "magic"),
    ("%time", "magic"),
    ("%timeit", "magic"),
    ("x = !ls", "assigned"),
    ("x, y = %unknown a", "assigned"),
    ("x = %time y = 1", "assigned"),
    ("%time x = f()", "prefix"),
    ("%timeit -n 10 -r3 f(x)", "prefix"),
    ("%prun -s cumulative f(x)", "prefix"),
    ("%lprun -f g f(x)", "prefix"),
    ("x = %time f()", "assigned-prefix"),
]


@pytest.mark.parametrize(("line", "kind"), MAGICS)
def test_lines_that_ipython_takes(line: str, kind: str) -> None:
    cell = f"a = (1\n%x)\nif a:\n    {line}\nb = '''\n!no\n'''\n"
    found = [piece.kind for piece in pieces_of(cell) if piece.kind != "code"]
    assert found == [kind]
    parsed = ast.parse(read(cell).text)
    assert [type(statement).__name__ for statement in parsed.body] == ["Assign", "If", "Assign"]
    made = read(cell)
    assert encode(made, made.text) == made.data


@pytest.mark.parametrize("line", ["a % b", "x = 'a = !b'", "x = y  # why?", "x = a % b", "f('?')", "cd = 1", "ls"])
def test_lines_of_python(line: str) -> None:
    assert [piece.kind for piece in pieces_of(line)] == ["code"]


@pytest.mark.parametrize("cell", ["x = (1,", "x = '''a", 'f"""\n!ls', "x = 1 + \\", "if x:\n    f([\n"])
def test_cell_that_is_cut_off_is_named(cell: str) -> None:
    with pytest.raises(CutOffError):
        list(pieces_of(cell))
    result = run(written(notebook(IMPORT, cell, "hvd.init()")))
    assert [file.status for file in result.files] == ["failed"]
    assert "cell 2, line" in result.files[0].reason
    assert "cut off" in result.files[0].reason


@pytest.mark.parametrize(
    ("cell", "name", "is_python"),
    [
        ("%%time\nx", "time", True),
        ("\n\n%%capture out\nx", "capture", True),
        ("%%bash\nls", "bash", False),
        ("%%writefile a.py\nx", "writefile", False),
        ("%sh\nls", "sh", False),
        ("%sh ls \\\n  -l\nbad python", "sh", False),
        ("%md\n# Title", "md", False),
        ("%python\nx", "python", True),
        ("%%unheard of\nx", "unheard", False),
    ],
)
def test_cells_that_say_what_they_are(cell: str, name: str, is_python: bool) -> None:
    header = header_of(cell)
    assert header is not None
    assert (header.name, header.is_python) == (name, is_python)
    made = read(cell)
    assert encode(made, made.text) == made.data


@pytest.mark.parametrize("cell", ["%sql select 1\nx = 1", "%pip install x\ny", "# %%time\nx", "%time x\ny", "x"])
def test_cells_of_python(cell: str) -> None:
    assert header_of(cell) is None


@pytest.mark.parametrize(
    ("magic", "kind"),
    [
        ("%pip install horovod", "packages"),
        ("!pip3 install horovod", "packages"),
        ("!python -m pip install horovod", "packages"),
        ("!HOROVOD_WITH_PYTORCH=1 pip install horovod", "packages"),
        ("pip install horovod", "packages"),
        ("%conda install x", "packages"),
        ("!horovodrun -np 2 python a.py", "shell"),
        ("%%bash", "shell"),
        ("%env HOROVOD_TIMELINE=a", "shell"),
        ("%%writefile a.py", "file"),
        ("%run ./a", "run"),
        ("%matplotlib inline", "text"),
        ("%%px", "code"),
        ("f?", "text"),
    ],
)
def test_kinds_of_magics(magic: str, kind: str) -> None:
    assert kind_of(magic)[0] == kind


POOL = [
    ["x = 1"],
    ["x = 1\n", "y = 'é ü \"q\" \\\\ \U0001f600'\n", "\n"],
    ["%time z = f(\n)"],
    ["%%time\n", "x = 1\n", "!ls {x}\n"],
    ["%%bash\n", "echo $x\n", "\n", "done"],
    ["if x:\n", "\t!ls\n", "\ty = %time g()\n"],
    ["?x\n", "x??\r\n", "%load_ext a\n"],
    "def f():\n    return '''\n%no\n'''\n",
    "",
    ["for i in range(3):\n", "    pass\n", "    # end"],
    ["  indented = 1\n", "  more = 2\n"],
    ["a\f = 1\n"],
]
USES = [
    [f"{IMPORT}\n", "hvd.init()"],
    ["%time x = hvd.rank()\n", "x"],
    ["%%time\n", "print(hvd.size(), '%d' % 3)  # é\n"],
    "y = hvd.local_rank()\ny",
]
STYLES: list[dict[str, Any]] = [
    {"indent": 1},
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
    {"separators": (",", ":"), "indent": None},
    {"indent": None},
    {"sort_keys": True},
    {"ensure_ascii": True},
]


def random_notebook(draw: random.Random) -> bytes:
    uses = [code(list(use) if isinstance(use, list) else use) for use in USES]
    cells = uses[:1] + draw.sample(uses[1:], draw.randint(0, 3))
    for _ in range(draw.randint(0, 6)):
        source = draw.choice([cell for cell in POOL if cell != ["%time z = f(\n)"]])
        kind = {"cell_type": "markdown"} if draw.random() < 0.2 else {}
        output = [{"output_type": "stream", "name": "stdout", "text": ["hvd\n", "\ud800"]}] * draw.randint(0, 1)
        made = code(source, outputs=output, id=f"{draw.random()}", **kind)
        cells.insert(draw.randint(0, len(cells)), {key: made[key] for key in draw.sample(sorted(made), len(made))})
    first = next(number for number, cell in enumerate(cells) if IMPORT in "".join(cell["source"]))
    cells.insert(0, cells.pop(first))
    text = json.dumps(notebook(*cells), **({"ensure_ascii": False, "indent": 1} | draw.choice(STYLES)))
    text = text.replace("\ud800", "\\ud800") + draw.choice(["", "\n", "\n\n"])
    text = text.replace("\n", draw.choice(["\n", "\n", "\r\n"]))
    return draw.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode()


def without_sources(data: bytes) -> Any:
    document = json.loads(data.decode("utf-8-sig"))
    return document | {"cells": [{k: v for k, v in cell.items() if k != "source"} for cell in document["cells"]]}


@pytest.mark.parametrize("seed", range(40))
def test_all_but_changed_sources_keeps_its_bytes(seed: int) -> None:
    data = random_notebook(random.Random(seed))
    made = decode("a.ipynb", data)
    assert encode(made, made.text) == data
    result = run(data)
    assert [program.status for program in result.programs] == ["migrated"], said(result)
    new = after(result)
    assert without_sources(new) == without_sources(data)
    assert list(map(list, json.loads(new.decode("utf-8-sig"))["cells"])) == [
        list(cell) for cell in json.loads(data.decode("utf-8-sig"))["cells"]
    ]
    assert new.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    assert new.isascii() >= data.isascii()
    assert b"hvd." not in new
    old_lines, new_lines = data.split(b"\n"), new.split(b"\n")
    if len(old_lines) > 9:
        quiet = [line for line in old_lines if b"hvd" not in line and IMPORT.encode() not in line]
        assert all(
            new_lines.count(line) >= old_lines.count(line) for line in quiet if line.strip() not in (b'"x"', b'"y"')
        )
    again = run(new)
    assert not again.changed
    assert not again.blocked


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_sources_are_written_as_the_file_writes_them(style: dict[str, Any]) -> None:
    options = {"ensure_ascii": False} | style
    before = notebook([IMPORT], ["hvd.init()\n", "x = 'é'\n", "print(hvd.rank())"], ["é"])
    data = json.dumps(before, **options).encode()
    new = after(run(data))
    assert json.dumps(json.loads(new), **options).encode() == new


def test_a_source_that_is_one_string_stays_one() -> None:
    data = written(notebook(f"{IMPORT}\nhvd.init()\n# \u2028 tab\t\nx = hvd.rank()"))
    data = data.replace(b"hvd.rank()", b"\\u0068vd.rank()").replace(b"\\t", b"\\u0009")
    new = after(run(data))
    assert isinstance(json.loads(new)["cells"][0]["source"], str)
    assert b"\\u0009" in new
    assert b"x = dist.get_rank()" in new


def test_each_cell_may_begin_with_imports_from_the_future() -> None:
    future = "from __future__ import annotations"
    cells = [
        "%load_ext a",
        f"{future}\nimport torch",
        f"{future}\n{IMPORT}\nhvd.init()",
        "await f()",
        "async with a: b",
    ]
    result = run(written(notebook(*cells)))
    assert [program.status for program in result.programs] == ["migrated"], said(result)
    assert sources(after(result))[2].startswith(f"{future}\n")
    source = decode("a.ipynb", written(notebook(*cells[:3])))
    assert source.notebook is not None
    compile(source.notebook.module.script, "a.py", "exec")


def test_the_script_of_a_notebook_has_no_magics() -> None:
    cells = [
        "%run ./a",
        "x = !ls\nif x:\n    !ls",
        "%time y = 1\nz = %time 2",
        "%%time\nw = 1",
        "  v = 3",
        "%%bash\nls",
    ]
    source = read(*cells)
    assert source.notebook is not None
    names: dict[str, object] = {}
    exec(source.notebook.module.script, names)
    assert [names[name] for name in "xyzwv"] == [None, 1, 2, 1, 3]


def test_names_that_notebooks_have_do_not_come_from_a_star_import() -> None:
    cells = ["from horovod.torch import *", "init()\n%time x = rank()\n!ls\ndisplay(x, spark)"]
    result = run(written(notebook(*cells)))
    assert [program.status for program in result.programs] == ["migrated"], said(result)
    assert sources(after(result))[1] == "init_process_group()\n%time x = dist.get_rank()\n!ls\ndisplay(x, spark)"


def test_an_emptied_cell_stays() -> None:
    new = after(run(written(notebook(["import horovod.torch as hvd"], ["x = 1"]))))
    assert sources(new) == ["", "x = 1"]
    assert b'"source": []' in new


def test_names_are_resolved_across_cells_and_outputs_kept() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": ["hvd.rank() 0\n"]}
    data = written(
        notebook(["import torch"], [IMPORT, "\n"], ["hvd.init()"], code(["r = hvd.rank()"], outputs=[output]))
    )
    new = after(run(data))
    assert sources(new)[3] == "r = dist.get_rank()"
    assert b"hvd.rank() 0" in new
    assert sources(new)[0] == "import torch"
    assert "import torch.distributed as dist" in sources(new)[1]
    assert "def init_process_group" in sources(new)[1]
    assert sources(new)[2] == "init_process_group()"


def test_nothing_goes_above_the_cell_of_the_import() -> None:
    cells = ["%pip install x", "a = 1", f"b = 2\n{IMPORT}\nhvd.init()", "import matplotlib", "hvd.rank()"]
    new = sources(after(run(written(notebook(*cells)))))
    assert [new[0], new[1], new[3]] == ["%pip install x", "a = 1", "import matplotlib"]
    assert new[4] == "dist.get_rank()"
    assert new[2].endswith("init_process_group()")


def test_a_function_that_imports_gets_its_helpers_in_its_cell() -> None:
    train = f"def train():\n    {IMPORT}\n    hvd.init()\n    return hvd.rank()"
    new = sources(after(run(written(notebook("x = 1", train, "train()", "import late")))))
    assert "def init_process_group" in new[1]
    assert [new[0], new[2], new[3]] == ["x = 1", "train()", "import late"]
    ast.parse("\n".join(new))


def test_an_import_that_magics_use_alone_stays_where_they_cannot_be_followed() -> None:
    data = written(notebook(f"{IMPORT}\nhvd.init()", "!echo {hvd.rank()}"))
    result = run(data)
    assert [p.status for p in result.programs] == ["blocked"]
    assert "is given hvd" in said(result, "HVD015")[0][3]
    partial = after(run(data, partial=True))
    assert IMPORT in sources(partial)[0]
    assert sources(partial)[1] == "!echo {hvd.rank()}"
    assert sources(after(run(written(notebook(IMPORT, "%time hvd.rank()")))))[1] == "%time dist.get_rank()"


def test_a_magic_goes_with_the_statement_that_it_runs() -> None:
    train = "import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    wrap = "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"
    steps = "optimizer.zero_grad()\nmodel(torch.ones(1)).sum().backward()\noptimizer.step()"
    state = "x = 1\n%time hvd.broadcast_optimizer_state(optimizer, 0)\ny = 2"
    new = sources(after(run(written(notebook(f"{IMPORT}\nhvd.init()", train, wrap, state, steps)))))
    assert new[3] == "x = 1\ny = 2"


BLOCKED = [
    ("%%px\nprint(hvd.rank())", "%px hides code"),
    ("%%timeit hvd.rank()\nx = 1", "%timeit hides code"),
    ("%lprun -f hvd.rank f(x)", "hides code"),
    ("%%writefile train.py\nimport horovod.torch", "%writefile writes a program"),
    ("!echo $hvd", "is given hvd"),
    ("%unheard hvd.rank()", "%unheard hides code"),
]
REVIEWED = [
    ("%pip install horovod", "installs Horovod"),
    ("!HOROVOD_WITH_TORCH=1 pip install --no-cache-dir horovod", "installs Horovod"),
    ("pip install horovod", "installs Horovod"),
    ("%env HOROVOD_TIMELINE=x", "%env names Horovod"),
    ("%%writefile Dockerfile\nFROM horovod/horovod", "%writefile names Horovod"),
    ("hvd.allreduce?", "the question hvd.allreduce? is about Horovod"),
]
QUIET = ["!ls", "%matplotlib inline", "%%html\n<b>horovod</b>", "%%bash\necho $hvd", "!echo hvd", "x?", "%%px\nx"]


@pytest.mark.parametrize(("cell", "message"), BLOCKED)
def test_what_cannot_be_followed_blocks(cell: str, message: str) -> None:
    result = run(written(notebook(f"{IMPORT}\nhvd.init()", cell)))
    ((_, _, class_, text),) = said(result, "HVD015")
    assert class_ == "blocked"
    assert message in text
    assert text.startswith("cell 2, line ")


@pytest.mark.parametrize(("cell", "message"), REVIEWED)
def test_what_has_to_do_with_horovod_is_named(cell: str, message: str) -> None:
    data = written(notebook(f"{IMPORT}\nhvd.init()", cell))
    result = run(data)
    ((_, _, class_, text),) = said(result, "HVD015")
    assert class_ == "review"
    assert message in text
    assert sources(after(result))[1] == cell


LINES = [
    ("!horovodrun -np 2 python train.py", "!torchrun --standalone --nproc-per-node=2 train.py"),
    ("x = 1\n%sh cd a && horovodrun -np 2 python b.py", "x = 1\n%sh cd a && torchrun --standalone --nproc-per-node=2 b.py"),  # noqa: E501
    ("%%bash\ncd a\nmpirun -np 2 \\\n  python b.py\nls", "%%bash\ncd a\ntorchrun --standalone --nproc-per-node=2 \\\n  b.py\nls"),  # noqa: E501
    ("%%bash\n\nmpirun python horovod_train.py", "%%bash\n\nmpirun python horovod_train.py"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "cell"), LINES)
def test_shell_lines_that_start_ranks(before: str, cell: str) -> None:
    result = run(written(notebook(f"{IMPORT}\nhvd.init()", before)))
    ((_, _, class_, text),) = said(result, "HVD651")
    assert (class_, "left as it is" in text) == ("review", before == cell)
    assert sources(after(result))[1] == cell
    assert not said(result, "HVD015")


@pytest.mark.parametrize("cell", QUIET)
def test_what_has_nothing_to_do_with_horovod_is_not_named(cell: str) -> None:
    result = run(written(notebook(f"{IMPORT}\nhvd.init()", cell)))
    assert not said(result, "HVD015")
    assert [program.status for program in result.programs] == ["migrated"]


def test_places_are_those_of_the_file() -> None:
    data = written(
        notebook({"cell_type": "markdown", "metadata": {}, "source": []}, [f"{IMPORT}\n", "\n", "é = hvd.rank()"])
    )
    ((line, column, _, message),) = said(run(data), "HVD103")
    text = data.decode().split("\n")[line - 1]
    assert text[column - 1 :].startswith("hvd.rank()")
    assert message.startswith("cell 2, line 3: ")


def test_places_in_a_source_of_one_string() -> None:
    data = written(notebook(f"{IMPORT}\nx = '\\\\', hvd.rank()"))
    ((line, column, _, message),) = said(run(data), "HVD103")
    text = data.decode().split("\n")[line - 1]
    assert text[column - 1 :].startswith("hvd.rank()")
    assert message.startswith("cell 1, line 2: ")


def test_an_ignore_silences_its_line() -> None:
    data = written(notebook([f"{IMPORT}\n", "hvd.init()  # hvd: ignore[HVD101]\n", "x = 1  # hvd: ignore[HVD103]"]))
    result = run(data)
    assert not said(result, "HVD101")
    ((line, *_),) = said(result, "HVD006")
    assert "ignore[HVD103]" in data.decode().split("\n")[line - 1]


def test_a_todo_that_partial_left_is_named_again() -> None:
    data = written(notebook([f"{IMPORT}\n", "hvd.init()\n", "hvd.rank(1)"]))
    draft = after(run(data, partial=True))
    assert "# TODO(HVD" in sources(draft)[0]
    assert IMPORT in sources(draft)[0]
    without = draft.replace(b"hvd.rank(1)", b"pass")
    assert any("left open by --partial" in message for *_, message in said(run(without)))


def test_what_partial_leaves_has_its_line_above_the_magic() -> None:
    cells = [f"{IMPORT}\nhvd.init()", "%time x = hvd.rank(1)\ny = %time hvd.rank(1)\nif x: hvd.rank(1)"]
    draft = sources(after(run(written(notebook(*cells)), partial=True)))[1]
    lines = draft.split("\n")
    assert [line for line in lines if not line.startswith("# TODO(HVD")] == cells[1].split("\n")
    assert [number for number, line in enumerate(lines) if line.startswith("# TODO(HVD")] == [0, 2, 4]


LEFT = [
    (notebook(IMPORT, metadata={"kernelspec": {"language": "R"}}), "a notebook in R", "review"),
    (notebook(IMPORT, metadata={"language_info": {"name": "scala"}}), "a notebook in scala", "review"),
    (notebook("x", {"cell_type": "markdown", "metadata": {}, "source": "Horovod"}), "in text or output", "note"),
    ({"worksheets": [{"cells": [{"input": [IMPORT]}]}], "nbformat": 3}, "format 3", "review"),
]


@pytest.mark.parametrize(("document", "message", "class_"), LEFT)
def test_notebooks_that_are_left(document: Any, message: str, class_: str) -> None:
    data = written(document)
    result = run(data)
    assert after(result) == data
    ((_, _, found, text),) = said(result, "HVD010")
    assert message in text
    assert found == class_


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"language_info": {"name": "python"}},
        {"application/vnd.databricks.v1+notebook": {"language": "python"}},
        None,
    ],
)
def test_notebooks_in_python(metadata: Any) -> None:
    result = run(written(notebook(f"{IMPORT}\nhvd.init()", metadata=metadata)))
    assert [program.status for program in result.programs] == ["migrated"]


GOOD = written(notebook(f"{IMPORT}\nhvd.init()"))
BROKEN = [
    (GOOD[:-10], "not valid JSON"),
    (GOOD.replace(b"hvd.init", b"\xff"), "not valid utf-8"),
    (GOOD.replace(b"hvd.init", b"\0"), "NUL"),
    (GOOD.replace(b"hvd.init", b"\\u0000"), "NUL"),
    (GOOD.replace(b"hvd.init", b"\\ud800"), "half a character"),
    (b'["horovod"]', "no notebook"),
    (b'{"horovod": 1}', "no notebook"),
    (b'{"cells": {"horovod": 1}}', "no notebook"),
    (b'{"cells": [{"cell_type": "code", "source": ["horovod", 1]}]}', "its source is no text"),
    (GOOD.replace(b'"metadata": {\n    "a"', b'"source": "", "metadata": {\n    "a"'), "twice"),
    (b'{"horovod": ' + b"[" * 100000 + b"]" * 100000 + b"}", "nests too deeply"),
    (written(notebook(IMPORT, "def broken(:\n  pass")), "cell 2, line 1: broken syntax"),
    (written(notebook(IMPORT, "hvd.init()\nprint 'x'")), "cell 2, line 2: Python 2 source"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
def test_broken_notebooks_are_named_and_left(data: bytes, reason: str) -> None:
    result = run(data)
    (file,) = result.files
    assert (file.status, file.after) == ("failed", data)
    assert reason in file.reason


def test_json_that_only_python_writes_is_read() -> None:
    output = {"output_type": "display_data", "data": {"application/x": [float("nan"), float("inf"), -0.0]}}
    data = written(notebook(code(f"{IMPORT}\nhvd.init()", outputs=[output])))
    assert b"NaN" in data
    new = after(run(data))
    assert new.count(b"NaN") == new.count(b" Infinity") == 1
    assert b"hvd" not in new


def test_the_mark_of_cells_is_one_that_no_cell_has() -> None:
    data = written(notebook(f"{IMPORT}\nhvd.init()", "_cell_ = '#_cell_ cell\\n'\n#_cell_ cell\n_cell1_ = !ls"))
    new = after(run(data))
    assert sources(new)[1] == sources(data)[1]


def test_an_edit_that_a_cell_cannot_hold_is_refused() -> None:
    made = read("x = 1", "!ls\ny = %time f()")
    found = made.notebook
    assert found is not None
    assert found.problem(made.text, made.text) == ""
    assert "beyond" in found.problem(made.text, made.text.replace("#_cell_ cell\n", "", 1))
    assert "not Python" in found.problem(made.text, re.sub(r"get_ipython\(\)\._cell__0.*", "", made.text))
    assert "apart" in found.problem(made.text, made.text.replace("_cell__1 or ", "_cell__1 and "))


def test_fragments_can_be_changed() -> None:
    made = read("!horovodrun -np 2 \\\n  python a.py", "%%bash\nhorovodrun a\n\nb\n", "%pip install horovod")
    text = made.text
    for fragment in reversed(fragments(made)):
        new = fragment.embedded(fragment.text.replace("horovod", "torch"))
        text = text[: fragment.span.start] + new + text[fragment.span.end :]
    assert sources(encode(made, text)) == [
        "!torchrun -np 2 \\\n  python a.py",
        "%%bash\ntorchrun a\n\nb\n",
        "%pip install torch",
    ]
    assert [(each.kind, each.name, each.is_cell) for each in fragments(made)] == [
        ("shell", "!", False),
        ("shell", "bash", True),
        ("packages", "pip", False),
    ]


# Databricks source notebooks

HEAD = "# Databricks notebook source\n"
CUT = "\n# COMMAND ----------\n\n"


def databricks(*cells: str) -> str:
    return HEAD + CUT.join(cells)


def migrated(text: str) -> str:
    result = run(text.encode(), "a.py")
    assert [program.status for program in result.programs] == ["migrated"], said(result)
    return after(result).decode()


def test_cells_of_databricks_keep_their_place() -> None:
    cells = [
        "# MAGIC %md\n# MAGIC hvd.rank()\n",
        "# MAGIC %pip install horovod\n",
        f"# DBTITLE 1,A\n{IMPORT}\nhvd.init()\n",
    ]
    more = ["# DBTITLE 1,B\nimport os\n# MAGIC %sql select 1\n", "x = hvd.rank()\n"]
    before = databricks(*cells, *more)
    new = migrated(before)
    parts = new.removeprefix(HEAD).split(CUT)
    assert parts[:2] == cells[:2]
    assert parts[2].startswith("# DBTITLE 1,A\nimport atexit\n")
    assert parts[3] == more[0]
    assert parts[4] == "x = dist.get_rank()\n"
    assert [line for line in new.split("\n") if line.startswith("# ")] >= []
    magics = [line for line in before.split("\n") if line.startswith(("# MAGIC", "# COMMAND", "# DBTITLE"))]
    assert [line for line in new.split("\n") if line.startswith(("# MAGIC", "# COMMAND", "# DBTITLE"))] == magics


def test_an_edit_that_a_notebook_of_databricks_cannot_hold_is_refused() -> None:
    made = decode("a.py", databricks("# MAGIC %md\n", "x = 1\n").encode())
    assert made.notebook is not None
    assert made.notebook.problem(made.text, made.text.replace("x = 1", "y = 2")) == ""
    for lost in (HEAD, "# MAGIC %md\n", CUT):
        assert "cells" in made.notebook.problem(made.text, made.text.replace(lost, "\n", 1))
    assert made.notebook.readable(made.text) == made.text


def test_imports_before_python_is_started_anew_are_not_relied_on() -> None:
    for restart in ("# MAGIC %pip install x\n\n# COMMAND ----------\n", "dbutils.library.restartPython()\n"):
        new = migrated(databricks("import os\nimport torch\n", restart, f"{IMPORT}\nhvd.init()\n"))
        assert "import os\n" in new.rsplit("# COMMAND", 1)[1]
    kept = migrated(databricks("import os\nimport torch\n", f"{IMPORT}\nhvd.init()\n"))
    assert "import os\n" not in kept.rsplit("# COMMAND", 1)[1]


def test_magics_of_databricks_are_named() -> None:
    text = databricks(
        "# MAGIC %pip install horovod\n", "# MAGIC %sh horovodrun -np 2 python a.py\n", f"{IMPORT}\nhvd.init()\n"
    )
    result = run(text.encode(), "a.py")
    assert [(line, class_) for line, _, class_, _ in said(result, "HVD015")] == [(2, "review")]
    assert [(line, class_) for line, _, class_, _ in said(result, "HVD651")] == [(6, "review")]
    assert b"# MAGIC %sh torchrun --standalone --nproc-per-node=2 a.py\n" in result.files[0].after
    blocked = run(databricks(f"{IMPORT}\nhvd.init()\n", "# MAGIC %time hvd.rank()\n# MAGIC x\n").encode(), "a.py")
    assert [class_ for _, _, class_, _ in said(blocked, "HVD015")] == ["blocked"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fragments_of_databricks_can_be_changed(newline: str) -> None:
    text = databricks(
        "# MAGIC %sh\n# MAGIC horovodrun a\n# MAGIC\n# MAGIC b\n", "x = 1\n", "# MAGIC \n# MAGIC %sh horovodrun c"
    )
    made = decode("a.py", text.replace("\n", newline).encode())
    assert encode(made, made.text) == made.data
    new = made.text
    for fragment in reversed(fragments(made)):
        changed = fragment.embedded(fragment.text.replace("horovod", "torch"))
        new = new[: fragment.span.start] + changed + new[fragment.span.end :]
    assert encode(made, new).decode() == text.replace("horovod", "torch").replace("\n", newline)


# Several files

Make = Callable[..., None]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def create(**files: str | bytes) -> None:
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/").replace("_ipynb", ".ipynb").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return create


def outcome(**settings: Any) -> tuple[dict[str, str], Sequence[Diagnostic], Result]:
    result = migrate([Path(".")], Settings(jobs=1, **settings))
    return {file.path: file.after.decode() for file in result.changed}, result.findings, result


def test_cells_import_files_of_the_project(make: Make) -> None:
    make(comm_py=f"{IMPORT}\nrank = hvd.rank\n", a_ipynb=written(notebook("from comm import hvd", "hvd.init()")))
    changed, _, result = outcome()
    assert [(program.name, program.status) for program in result.programs] == [("a.ipynb", "migrated")]
    assert set(changed) == {"a.ipynb", "comm.py"}


def test_a_notebook_that_takes_horovod_from_a_file_belongs_to_its_program(make: Make) -> None:
    make(comm_py="from horovod.torch import rank\n", a_ipynb=written(notebook("from comm import rank\nprint(rank())")))
    changed, _, _ = outcome()
    assert "dist.get_rank()" in sources(changed["a.ipynb"].encode())[0]


RUNS = ["%run ./lib/setup", "%run lib/setup", '%run "./lib/setup"', "%run ./lib/setup.py", "%run lib/setup $x=1"]


@pytest.mark.parametrize("line", RUNS)
def test_run_brings_in_names(make: Make, line: str) -> None:
    make(lib__setup_py=f"{HEAD}{IMPORT}\nhvd.init()\n", a_ipynb=written(notebook(line, "x = 1", "hvd.rank()")))
    make(b_py=databricks(f"# MAGIC {line}\n", "y = hvd.size()\n"))
    changed, findings, result = outcome()
    assert [program.status for program in result.programs] == ["migrated"], findings
    assert sources(changed["a.ipynb"].encode())[0] == line
    assert sources(changed["a.ipynb"].encode())[2].endswith("dist.get_rank()")
    assert f"# MAGIC {line}\n" in changed["b.py"]
    assert changed["b.py"].endswith("y = dist.get_world_size()\n")


def test_run_of_a_notebook(make: Make) -> None:
    make(
        setup_ipynb=written(notebook(f"{IMPORT}\nhvd.init()")), a_ipynb=written(notebook("%run ./setup", "hvd.rank()"))
    )
    changed, _, result = outcome()
    assert set(changed) == {"a.ipynb", "setup.ipynb"}
    assert [program.name for program in result.programs] == ["a.ipynb"]


def test_run_of_nothing_to_be_found_blocks_what_needs_it(make: Make) -> None:
    make(a_ipynb=written(notebook("%run ./missing", f"{IMPORT}", "hvd.init()")))
    make(b_ipynb=written(notebook("%run ../../outside.py", "hvd.rank()")))
    changed, findings, _ = outcome()
    assert set(changed) == {"a.ipynb"}
    assert [f.class_ for f in findings if f.path == "b.ipynb"] == ["blocked"]


def test_run_in_a_block_is_not_followed(make: Make) -> None:
    make(setup_py=f"{HEAD}{IMPORT}\n", a_ipynb=written(notebook("if True:\n    %run ./setup", "hvd.rank()")))
    _, findings, result = outcome()
    assert [program.status for program in result.programs] == ["blocked"]
    assert any(f.rule == "HVD015" and f.message.startswith("cell 1, line 2: %run of a file") for f in findings)


def test_what_partial_leaves_in_a_notebook_keeps_the_import_of_what_it_runs(make: Make) -> None:
    make(setup_py=f"{HEAD}{IMPORT}\n", a_py=databricks("# MAGIC %run ./setup\n", "hvd.init()\nhvd.rank(1)\n"))
    changed, _, _ = outcome(partial=True)
    assert "hvd.rank(1)" in changed["a.py"]
    assert IMPORT in changed.get("setup.py", IMPORT)


def test_helpers_stay_in_each_notebook(make: Make) -> None:
    cells = written(notebook(f"{IMPORT}\nhvd.init()\nimport util"))
    make(a_ipynb=cells, util_py=f"{IMPORT}\nhvd.init()\n", b_ipynb=cells)
    changed, _, _ = outcome()
    assert set(changed) == {"a.ipynb", "b.ipynb", "util.py"}
    assert all("def init_process_group" in text for text in changed.values())


def test_notebooks_in_a_walk(make: Make) -> None:
    make(a_ipynb=GOOD, b_ipynb=b"{", c_ipynb=b'{"horovod":', d_ipynb=written(notebook("x", metadata={"horovod": 1})))
    make(e_ipynb=written(notebook("script = 'horovod_train.py'")), f_ipynb=written(notebook("hvd = 1", metadata={})))
    make(**{".ipynb_checkpoints__a_ipynb": GOOD})
    changed, findings, result = outcome()
    assert set(changed) == {"a.ipynb"}
    assert {file.path: file.status for file in result.files} == {
        **{"a.ipynb": "changed", "b.ipynb": "unchanged", "c.ipynb": "failed"},
        **{"d.ipynb": "unchanged", "e.ipynb": "unchanged", "f.ipynb": "unchanged"},
    }
    named = {(f.path, f.rule, f.class_) for f in findings if f.path != "a.ipynb"}
    assert named == {("c.ipynb", "HVD001", "blocked"), ("d.ipynb", "HVD010", "note"), ("e.ipynb", "HVD010", "note")}


def test_nothing_of_notebooks_is_imported_without_one(make: Make) -> None:
    import subprocess
    import sys

    make(a_py=f"{IMPORT}\nhvd.init()\n")
    program = "import sys; from migrator.engine import migrate; from migrator.config import Settings; " + (
        "from pathlib import Path; migrate([Path('.')], Settings(jobs=1)); "
        "print([m for m in sys.modules if m.startswith('migrator.notebooks')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unreadable_source_is_an_error() -> None:
    with pytest.raises(SourceError, match="format 3"):
        decode("a.ipynb", written({"worksheets": [], "nbformat": 3}))


@pytest.mark.ranks
def test_a_notebook_trains_to_the_same_numbers_on_two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from migrator import cli

    monkeypatch.chdir(tmp_path)
    data = (Path(__file__).parent.parent / "fixtures/notebook/training/before.ipynb").read_bytes()
    Path("train.ipynb").write_bytes(data)
    Path("train.py").write_text("raise SystemExit('another program')\n")
    outcome = CliRunner().invoke(cli.main, ["parity", "train.ipynb", "--stand-in"], prog_name="hvd-migrate")
    first = "train.ipynb: Equal: losses, gradients and parameters have the same bits in 5 steps on 2 ranks.\n"
    assert outcome.stdout.startswith(first), outcome.output
    assert Path("train.ipynb").read_bytes() == data


def test_a_patch_of_notebooks_is_one_that_git_takes(make: Make) -> None:
    import subprocess

    from migrator.write import patch

    make(a_ipynb=written(notebook(f"{IMPORT}\nhvd.init()\n# é")), b_py=databricks("x = 1\n", f"{IMPORT}\nhvd.init()"))
    changed, _, result = outcome()
    Path("p.patch").write_bytes(patch(result.changed))
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "p.patch"], check=True)
    assert {name: Path(name).read_text("utf-8") for name in changed} == changed


def test_the_diff_of_a_notebook_shows_its_cells() -> None:
    from migrator.reports.text import render
    from migrator.reports.view import View

    shown = render(run(written(notebook({"cell_type": "markdown", "source": ""}, f"{IMPORT}\nhvd.init()"))), View())
    assert "\n # cell 2\n" in shown
    assert "\n-hvd.init()\n" in shown
    assert "\n+init_process_group()\n" in shown
    assert '"cell_type"' not in shown
