"""The report of parity that programs read: one JSON object, whose names and meanings are in docs/parity.md."""

from __future__ import annotations

import math

from migrator.parity.comparison import (
    Comparison,
    Condition,
    Difference,
    Distance,
    Failure,
    ParameterDivergence,
    Reason,
    StepDistance,
)
from migrator.parity.report import EditEvidence, ParityReport, RunFacts
from migrator.reports.view import View, printable

SCHEMA = 1
Object = dict[str, object]


def render(report: ParityReport, view: View) -> str:
    """``report`` as JSON; numbers that are not finite are the strings ``nan``, ``inf`` and ``-inf``."""
    import json

    comparison = report.comparison
    content = {
        "schema": SCHEMA,
        "program": printable(report.program),
        "verdict": comparison.verdict,
        "summary": printable(comparison.sentence),
        "compared": {
            "ranks": comparison.extent.ranks,
            "steps": comparison.extent.steps,
            "recorded": comparison.extent.recorded,
        },
        "first": _difference(comparison.first) if comparison.first else None,
        "differences": [_difference(each) for each in comparison.differences],
        "reasons": [_reason(each) for each in comparison.reasons],
        "drifts": [
            {
                "side": each.side,
                "step": each.step,
                "optimizer": each.optimizer,
                "rank": each.rank,
                "parameter": printable(each.parameter),
            }
            for each in comparison.drifts
        ],
        "conditions": [_condition(each) for each in comparison.conditions],
        "parameters": [_parameter(each) for each in comparison.parameters],
        "steps": [_step(each) for each in comparison.steps],
        "noise": _noise(comparison),
        "failures": {side: _failure(failure) for side, failure in comparison.failures.items()},
        "notes": [printable(note) for note in comparison.notes],
        "runs": {"original": _run(report.original), "migrated": _run(report.migrated)},
        "speed": _number(report.speed),
        "slower": report.is_slower,
        "edits": [_edit(each) for each in report.edits],
        "files": [
            {"path": printable(each.path), "executed": each.executed, "total": each.total} for each in report.files
        ],
        "bisection": report.bisection
        and {"blamed": [printable(each) for each in report.bisection.blamed], "tried": report.bisection.tried},
        "ladder": [
            {
                "size": row.size,
                "steps_per_second": _number(row.steps_per_second),
                "efficiency": _number(row.efficiency),
            }
            for row in report.ladder
        ],
        "advice": [printable(each) for each in report.advice],
        "next_steps": [printable(each) for each in report.suggestions],
    }
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _difference(each: Difference) -> Object:
    return {
        "kind": each.kind,
        "rank": each.rank,
        "step": each.step,
        "optimizer": each.optimizer,
        "name": printable(each.name),
        "original": printable(each.original),
        "migrated": printable(each.migrated),
        "distance": _distance(each.distance) if each.distance else None,
        "worst": _number(each.worst),
        "count": each.count,
        "noise": each.is_noise,
        "sentence": printable(each.sentence),
    }


def _distance(each: Distance) -> Object:
    return {
        "absolute": _number(each.absolute),
        "relative": _number(each.relative),
        "ulps": _number(each.ulps),
        "ratio": _number(each.ratio),
        "rounding": each.is_rounding,
    }


def _reason(each: Reason) -> Object:
    return {"name": each.name, "rule": each.rule, "expected": each.is_expected, "sentence": printable(each.sentence)}


def _condition(each: Condition) -> Object:
    return {
        "name": printable(each.name),
        "original": printable(each.original),
        "migrated": printable(each.migrated),
        "same": each.is_same,
        "matters": each.matters,
        "remark": each.remark,
    }


def _parameter(each: ParameterDivergence) -> Object:
    return {
        "name": printable(each.name),
        "optimizer": each.optimizer,
        "shape": list(each.shape),
        "step": each.step,
        "rank": each.rank,
        "what": each.what,
        "first": _distance(each.first),
        "last": _distance(each.last) if each.last else None,
    }


def _step(each: StepDistance) -> Object:
    return {
        "optimizer": each.optimizer,
        "step": each.step,
        "original_loss": _number(each.original_loss),
        "migrated_loss": _number(each.migrated_loss),
        "loss": _number(each.loss),
        "gradient": _number(each.gradient),
        "parameter": _number(each.parameter),
        "noise": _number(each.noise),
    }


def _noise(comparison: Comparison) -> Object | None:
    noise = comparison.noise
    if noise is None:
        return None
    return {
        "given": _number(noise.given),
        "measured": {kind: _number(worst) for kind, worst in noise.measured.items()},
    }


def _failure(failure: Failure) -> Object:
    return {
        "rank": failure.rank,
        "message": printable(failure.message),
        "traceback": [printable(line) for line in failure.traceback.splitlines()],
    }


def _run(run: RunFacts) -> Object:
    return {
        "command": [printable(word) for word in run.command],
        "versions": {printable(name): printable(version) for name, version in run.versions.items()},
        "horovod": run.horovod,
        "device": printable(run.device),
        "deterministic": [printable(setting) for setting in run.deterministic],
        "size": run.size,
        "seconds": _number(run.seconds),
        "steps_per_second": _number(run.steps_per_second),
    }


def _edit(each: EditEvidence) -> Object:
    return {
        "rule": each.rule,
        "path": printable(each.path),
        "line": each.line,
        "message": printable(each.message),
        "class": each.class_,
        "exercised": each.exercised,
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
