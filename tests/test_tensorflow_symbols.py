"""Every public symbol of Horovod's three modules for TensorFlow and Keras has a rule of its own.

``horovod_tensorflow_symbols.tsv`` was read from Horovod 0.28.1 with ``dir`` and ``inspect``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.engine import migrate_text
from migrator.registry import load_rules

REGISTRY = load_rules()
NOT_THEIR_OWN = ("HVD002", "HVD005", "HVD900")
TABLE = (Path(__file__).parent / "horovod_tensorflow_symbols.tsv").read_text("utf-8").splitlines()[1:]
SYMBOLS = dict(line.split("\t") for line in TABLE)
# What is taken from a module whose name means nothing by itself.
THROUGH = {
    "callbacks": "MetricAverageCallback()",
    "compression": "Compression.none",
    "elastic": "run(print)",
    "functions": "broadcast_object(1, 0)",
    "gradient_aggregation": "LocalGradientAggregationHelper(1)",
    "mpi_ops": "rank()",
    "sync_batch_norm": "SyncBatchNormalization()",
    "util": "vars_to_refs([])",
}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_symbol_has_a_rule(symbol: str) -> None:
    module, _, name = symbol.rpartition(".")
    used = f"{name}.{THROUGH[name]}" if SYMBOLS[symbol] == "module" else name
    text = f"import {module}\n\nimport {module} as hvd\n\nprint(hvd.{used})\n"
    found = [finding for finding in migrate_text("program.py", text.encode(), Settings()).findings if finding.line == 5]
    assert [finding.rule for finding in found if finding.rule in NOT_THEIR_OWN] == []
    assert SYMBOLS[symbol] == "module" or REGISTRY.rule_for(REGISTRY.canonical(symbol)) is not None


def test_no_two_symbols_share_a_sentence() -> None:
    sentences: dict[str, str] = {}
    for symbol in SYMBOLS:
        known = REGISTRY.canonical(symbol)
        module, _, name = symbol.rpartition(".")
        text = f"import {module} as hvd\n\nvalue = hvd.{name}(1)\n"
        for finding in migrate_text("program.py", text.encode(), Settings()).findings:
            if finding.rule in ("HVD831", "HVD832"):
                assert sentences.setdefault(finding.message, known) == known
    assert len(sentences) > 30
