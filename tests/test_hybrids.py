"""Programs between an original and its migration."""

from __future__ import annotations

from migrator.config import Settings
from migrator.engine import migrate_text
from migrator.parity.hybrids import edits, hybrid

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
    found = edits({"train.py": ORIGINAL}, {"train.py": migrated()})
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
    found = edits(files, after)
    texts = [hybrid(files, after, {edit})["train.py"] for edit in found]
    assert len(found) == len(set(texts)) == 4
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
    (edit,) = edits({"a.py": before}, {"a.py": after})
    assert (edit.migrated.first, edit.migrated.last) == (6, 6)
    assert hybrid({"a.py": before}, {"a.py": after}, {edit})["a.py"] == after.replace("return half(x)", "return x")


def test_new_files_stay() -> None:
    assert hybrid({"a.py": "x = 1\n"}, {"a.py": "x = 1\n", "b.py": "y = 2\n"}, set())["b.py"] == "y = 2\n"
