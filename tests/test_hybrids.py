"""Programs between an original and its migration."""

from __future__ import annotations

from migrator.config import Settings
from migrator.engine import migrate_text
from migrator.parity.hybrids import edits, hybrid, joined

ORIGINAL = """\
import torch
import horovod.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(
    model.parameters(),
    lr=0.1 * hvd.size(),
)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters()
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
mean = hvd.allreduce(loss.detach())
if hvd.rank() == 0:
    print(mean)
"""


def migrated() -> str:
    (file,) = migrate_text("train.py", ORIGINAL.encode(), Settings(jobs=1)).files
    return file.after.decode()


def test_everything_left_out_is_the_original_with_what_both_need() -> None:
    found = [edit for group in edits({"train.py": ORIGINAL}, {"train.py": migrated()}) for edit in group]
    (text,) = hybrid({"train.py": ORIGINAL}, {"train.py": migrated()}, set(found)).values()
    compile(text, "train.py", "exec")
    rest = iter(text.splitlines())
    assert all(line in rest for line in ORIGINAL.splitlines())
    assert "def init_process_group()" in text
    assert text.count("init_process_group()\n") == 1


def test_nothing_left_out_is_the_migrated_program() -> None:
    assert hybrid({"train.py": ORIGINAL}, {"train.py": migrated()}, set()) == {"train.py": migrated()}


def test_each_edit_can_be_left_out() -> None:
    files, after = {"train.py": ORIGINAL}, {"train.py": migrated()}
    groups = edits(files, after)
    assert [len(group) for group in groups] == [1, 3, 1, 1]
    texts = [hybrid(files, after, set(group))["train.py"] for group in groups]
    assert len(set(texts)) == 4
    for text in texts:
        compile(text, "train.py", "exec")
        assert "import horovod.torch as hvd" in text
        assert "hvd.init()" in text
        assert text.count("def init_process_group") == 1
    assert "lr=0.1 * hvd.size()" in texts[0]
    assert "hvd.DistributedOptimizer" in texts[1]
    assert "hvd.allreduce" in texts[2]
    assert "if hvd.rank() == 0" in texts[3]


def test_a_changed_function_is_an_edit_and_a_new_one_is_not() -> None:
    before = "def step(x):\n    return x\n\n\nstep(1)\n"
    after = "def half(x):\n    return x / 2\n\n\ndef step(x):\n    return half(x)\n\n\nstep(1)\n"
    ((edit,),) = edits({"a.py": before}, {"a.py": after})
    assert (edit.migrated.first, edit.migrated.last) == (6, 6)
    assert hybrid({"a.py": before}, {"a.py": after}, {edit})["a.py"] == after.replace("return half(x)", "return x")


def test_new_files_stay() -> None:
    assert hybrid({"a.py": "x = 1\n"}, {"a.py": "x = 1\n", "b.py": "y = 2\n"}, set())["b.py"] == "y = 2\n"


def texts_of(before: str, after: str) -> list[tuple[str, str]]:
    """What each edit takes away and puts in its place."""
    groups = edits({"a.py": before}, {"a.py": after})
    old, new = before.splitlines(), after.splitlines()
    return [
        (
            "; ".join(line.strip() for line in old[edit.original.first - 1 : edit.original.last]),
            "; ".join(line.strip() for line in new[edit.migrated.first - 1 : edit.migrated.last]),
        )
        for group in groups
        for edit in group
    ]


def test_statements_are_paired_by_their_words() -> None:
    before = "a = first(x)\nlose(b)\nc = hvd.third(y)\nprint(c)\n"
    after = "c = third(y)\nadded(d)\nprint(c)\n"
    assert texts_of(before, after) == [
        ("a = first(x)", ""),
        ("lose(b)", ""),
        ("c = hvd.third(y)", "c = third(y)"),
        ("", "added(d)"),
    ]


def test_a_compound_statement_goes_with_its_body() -> None:
    before = "with optimizer.skip():\n    optimizer.step()\nlog(1)\n"
    after = "optimizer.step()\nlog(1)\n"
    assert texts_of(before, after) == [("with optimizer.skip():; optimizer.step()", "optimizer.step()")]


def test_an_import_that_is_tried_stays() -> None:
    before = "try:\n    import horovod.torch as hvd\nexcept ImportError:\n    hvd = None\nprint(hvd.rank())\n"
    after = "import torch.distributed as dist\nprint(dist.get_rank())\n"
    found = [edit for group in edits({"a.py": before}, {"a.py": after}) for edit in group]
    text = hybrid({"a.py": before}, {"a.py": after}, set(found))["a.py"]
    compile(text, "a.py", "exec")
    assert text.count("import horovod.torch as hvd") == text.count("import torch.distributed as dist") == 1
    assert "print(hvd.rank())" in text


def test_code_that_joins_and_does_more_is_not_made_twice() -> None:
    before = "if use:\n    hvd.init()\n    train()\n"
    after = "if use:\n    init_process_group()\n    better(train)\n"
    found = [edit for group in edits({"a.py": before}, {"a.py": after}) for edit in group]
    assert hybrid({"a.py": before}, {"a.py": after}, set(found))["a.py"].count("train") == 1


def test_edits_that_follow_one_another_are_one() -> None:
    before, after = "a(1)\nb(2)\nc(3)\nd(4)\n", "x(5)\nc(3)\ny(6)\n"
    found = [edit for group in edits({"a.py": before}, {"a.py": after}) for edit in group]
    assert len(found) == 5
    assert [(edit.original.first, edit.original.last) for edit in joined(found)] == [(1, 2), (4, 4)]
    assert joined(found[:1]) == (found[0],)
