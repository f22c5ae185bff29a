"""Which wrong migrations are caught, for which reason, and on which edit they are blamed; and what is reported of
right ones.

    python benchmarks/mistakes.py [NAME...]

Prints the tables of docs/mistakes.md. Exit code 1 if one is missed, or one that is harmless is reported.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from mistakes import HARMLESS, MISTAKES, Variation
from seeded import Runs, blamed, compared, is_named, original_runs


def main(names: Sequence[str]) -> int:
    """Run them all, or those of ``names``, and print the score; 1 if it is not full."""
    mistakes, harmless = ([each for each in side if not names or each.name in names] for side in (MISTAKES, HARMLESS))
    with tempfile.TemporaryDirectory(prefix="mistakes-") as scratch:
        folder = Path(scratch)
        originals = {
            each.program: original_runs(each, folder / each.program)
            for each in {each.program: each for each in (*mistakes, *harmless)}.values()
        }
        print("| mistake | program | detected | reason | blamed | seconds |\n|---|---|---|---|---|---|")
        caught = [examine(each, originals[each.program], folder / f"mistake-{n}") for n, each in enumerate(mistakes)]
        print("\n| harmless | program | reported |\n|---|---|---|")
        quiet = [pass_over(each, originals[each.program], folder / f"harmless-{n}") for n, each in enumerate(harmless)]
    detected, named, guilty = (sum(each) for each in zip(*caught, strict=True)) if caught else (0, 0, 0)
    print(
        f"\nOf {len(caught)} mistakes {detected} are detected, {named} for their reason, {guilty} blamed on the right "
        f"edit; of {len(quiet)} harmless variations {len(quiet) - sum(quiet)} are reported."
    )
    return 0 if all(map(all, caught)) and all(quiet) else 1


def examine(mistake: Variation, original: Runs, folder: Path) -> tuple[bool, bool, bool]:
    """Print the line of a mistake: whether it is detected, its reason named, and the right edit blamed."""
    start = time.monotonic()
    comparison = compared(mistake, original, folder / "compared")
    text = blamed(mistake, folder / "blamed")
    detected = comparison.verdict in ("different", "could-not-run")
    found = detected, is_named(mistake, comparison), mistake.blame in text
    reason = mistake.reason if found[1] else f"{[each.name for each in comparison.reasons]} {comparison.sentence}"
    cells = [mistake.name, mistake.program, comparison.verdict, shown(reason, found[1]), shown(mistake.blame, found[2])]
    print("|", " | ".join([*cells, f"{time.monotonic() - start:.0f}"]), "|", flush=True)
    return found


def pass_over(variation: Variation, original: Runs, folder: Path) -> bool:
    """Print the line of a harmless variation: whether it is passed over."""
    comparison = compared(variation, original, folder)
    is_quiet = comparison.verdict in ("equal", "within-noise")
    print("|", variation.name, "|", variation.program, "|", "no" if is_quiet else comparison.sentence, "|", flush=True)
    return is_quiet


def shown(text: str, is_right: bool) -> str:
    """A cell of the table."""
    return f"`{text}`" if is_right else f"MISSED: {text}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
