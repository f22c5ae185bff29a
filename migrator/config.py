"""Settings of a run: the defaults, overridden by ``[tool.hvd-migrate]``, overridden by the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

Gradients = Literal["auto", "ddp", "optimizer", "scope"]
Target = Literal["auto", "ddp", "deepspeed", "ray"]
Keras = Literal["auto", "2", "3"]
Kubeflow = Literal["pytorchjob", "trainer"]
Value = str | bool | int | tuple[str, ...]


class SettingsError(Exception):
    """Settings that cannot be used; one line names the file, the key and the reason."""


@dataclass(frozen=True)
class Settings:
    """One run's settings; ``select`` empty means every rule, ``jobs`` 0 means as many as there are cores."""

    target: Target = "auto"
    gradients: Gradients = "auto"
    partial: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    jobs: int = 0
    keras: Keras = "auto"
    kubeflow: Kubeflow = "pytorchjob"


def load_settings(start: Path) -> Settings:
    """The settings of the nearest pyproject.toml at or above ``start``, or the defaults.

    Raises SettingsError if that file cannot be read, is not TOML, or has a key or value that is not known.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        try:
            text = file.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"{file}: not valid TOML: {error}") from error
        return _from_toml(text, str(file))
    return Settings()


def make_settings(table: Mapping[str, object], origin: str) -> Settings:
    """Settings from plain values; ``origin`` says in errors where they come from.

    Raises SettingsError at the first unknown key, wrong type or unknown value.
    """
    hints: dict[str, object] = get_type_hints(Settings)
    unknown = [key for key in table if key not in hints]
    if unknown:
        raise SettingsError(f"{origin}: {unknown[0]!r}: unknown key; known are {', '.join(hints)}")
    checked = {key: _check(hints[key], value, f"{origin}: {key}") for key, value in table.items()}
    return Settings(**checked)  # type: ignore[arg-type]  # each value was checked against its field's type


def is_selected(settings: Settings, rule_id: str) -> bool:
    """Whether a rule's findings are shown: the longest matching prefix decides, ``ignore`` wins a tie."""
    return _longest(settings.select or ("",), rule_id) > _longest(settings.ignore, rule_id)


def _longest(prefixes: Iterable[str], rule_id: str) -> int:
    return max((len(prefix) for prefix in prefixes if rule_id.startswith(prefix)), default=-1)


def _from_toml(text: str, file: str) -> Settings:
    try:
        tables: dict[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from error
    for key in ("tool", "hvd-migrate"):
        table = tables.get(key, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{file}: {key}: must be a table")
        tables = table
    return make_settings(tables, f"{file}: [tool.hvd-migrate]")


def _check(hint: object, value: object, where: str) -> Value:
    if get_origin(hint) is Literal:
        if isinstance(value, str) and value in get_args(hint):
            return value
        raise SettingsError(f"{where}: must be one of {', '.join(get_args(hint))}, not {value!r}")
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        items = tuple(item for item in value if isinstance(item, str) and item)
        if len(items) == len(value):
            return items
    raise SettingsError(f"{where}: must be {_describe(hint)}, not {value!r}")


def _describe(hint: object) -> str:
    if hint is bool:
        return "true or false"
    return "a whole number, 0 or more" if hint is int else "a list of strings, none empty"
