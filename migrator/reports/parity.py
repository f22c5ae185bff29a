"""The reports of parity: each format is a function from a report and a view to text."""

from __future__ import annotations

from collections.abc import Callable

from migrator.parity.report import ParityReport
from migrator.reports import parity_html, parity_json, parity_markdown, parity_text
from migrator.reports.view import View

FORMATS: dict[str, Callable[[ParityReport, View], str]] = {
    "text": parity_text.render,
    "json": parity_json.render,
    "markdown": parity_markdown.render,
    "html": parity_html.render,
}
