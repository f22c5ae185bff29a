"""Every public symbol of ``horovod.spark`` and ``sparkdl`` has a rule of its own.

``horovod_spark_symbols.tsv`` was read from the source of Horovod 0.28.1 and spark-deep-learning 1.6.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.config import Settings
from migrator.engine import migrate_text
from migrator.registry import load_rules

REGISTRY = load_rules()
TABLE = (Path(__file__).parent / "horovod_spark_symbols.tsv").read_text("utf-8").splitlines()[1:]
SYMBOLS = [line.split("\t")[0] for line in TABLE]
MIGRATED = ("horovod.spark.run", "horovod.spark.runner.run", "sparkdl.HorovodRunner", "sparkdl.horovod.log_to_driver")


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_symbol_has_a_rule(symbol: str) -> None:
    rule = REGISTRY.rule_for(REGISTRY.canonical(symbol))
    assert rule is not None
    assert rule.id.startswith("HVD50")
    if symbol == "sparkdl.HorovodRunner.run":
        return
    module, _, name = symbol.rpartition(".")
    found = migrate_text(
        "program.py", f"from {module} import {name}\n\nprint({name}(fn=1, np=2))\n".encode(), Settings()
    )
    assert {finding.rule for finding in found.findings if finding.line == 3} & {rule.id}
    assert symbol in MIGRATED or [f.rule for f in found.findings if f.class_ == "blocked"] == [rule.id]


def test_an_estimator_is_explained_with_a_skeleton() -> None:
    documentation = REGISTRY.rules["HVD505"].documentation
    assert "TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train" in documentation
    text = "from horovod.spark.torch import TorchEstimator\n\nmodel = TorchEstimator(num_proc=2).fit(df)\n"
    (finding,) = (f for f in migrate_text("program.py", text.encode(), Settings()).findings if f.line == 3)
    assert "TorchDistributor" in finding.message
    assert "HVD505" in finding.message
