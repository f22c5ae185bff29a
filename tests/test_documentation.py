"""The committed rule pages are those that the rules make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from migrator.documentation import INDEX, index, page, pages, update
from migrator.registry import Registry, Rule, load_rules

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "rules"
RULES = sorted(load_rules().rules)
HINT = "run: python -m migrator.documentation docs/rules"


def answer(*_: object) -> tuple[()]:
    return ()


def make_registry() -> Registry:
    registry = Registry()
    documentation = "HVD104 local-rank: the rank on this host.\n\nThe launcher exports it.\n"
    registry.add(Rule("HVD104", "local-rank", ("horovod.torch.local_rank",), answer, documentation))
    registry.add(Rule("HVD104", "local-rank", ("horovod.torch.local_size",), answer, "How many there are."))
    registry.add(Rule("HVD100", "init", (), answer, "HVD100 init: join the group."))
    return registry


@pytest.mark.parametrize("rule_id", RULES)
def test_page_is_current(rule_id: str) -> None:
    assert (FOLDER / f"{rule_id}.md").read_text(encoding="utf-8") == page(load_rules(), rule_id), HINT


def test_index_is_current() -> None:
    if RULES:
        assert (FOLDER / INDEX).read_text(encoding="utf-8") == index(load_rules()), HINT


def test_no_page_without_a_rule() -> None:
    committed = {path.name for path in FOLDER.glob("*.md")}
    assert committed <= pages(load_rules()).keys(), HINT


def test_page() -> None:
    assert page(make_registry(), "HVD104") == (
        "# HVD104 local-rank\n\n"
        "The rank on this host.\n\n"
        "| Symbol |\n|---|\n| `horovod.torch.local_rank` |\n| `horovod.torch.local_size` |\n\n"
        "The launcher exports it.\n\n"
        "How many there are.\n"
    )
    assert page(make_registry(), "HVD100") == "# HVD100 init\n\nJoin the group.\n"


def test_index() -> None:
    assert index(make_registry()).splitlines()[-2:] == [
        "| [HVD100](HVD100.md) | init | Join the group. |",
        "| [HVD104](HVD104.md) | local-rank | The rank on this host. |",
    ]


def test_update_brings_a_folder_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "rules"
    folder.mkdir(parents=True)
    (folder / "HVD999.md").write_text("gone")
    (folder / "HVD100.md").write_text("stale")
    update(folder, make_registry())
    assert {path.name: path.read_text() for path in folder.iterdir()} == pages(make_registry())


def test_the_worked_example_is_the_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:rules|fixtures)/[\w/]+\.py)`", text)
    assert len(paths) == 3
    for path in paths:
        code = (ROOT / path).read_text(encoding="utf-8")
        assert any(f"\n{fence}python\n{code}{fence}\n" in text for fence in ("```", "````")), path
