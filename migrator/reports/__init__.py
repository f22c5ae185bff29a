"""The reports: each format is a function from a result and a view to text."""

from __future__ import annotations

from collections.abc import Callable

from migrator.reports import json, text
from migrator.reports.view import View
from migrator.result import Result

Render = Callable[[Result, View], str]

FORMATS: dict[str, Render] = {"text": text.render, "json": json.render}
