"""Packages that only a part of this one needs."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def pandas(needed_by: str) -> Any:
    """The module pandas; ``needed_by`` is named when it cannot be imported."""
    return _import("pandas", "pandas", needed_by)


def typed_frame(needed_by: str, rows: list[dict[str, Any]], kinds: dict[str, str]) -> Any:
    """A DataFrame with the columns and types of ``kinds``; what a row lacks is missing."""
    frame = pandas(needed_by)
    columns = {
        name: frame.Series([row.get(name) for row in rows], dtype=kind)
        for name, kind in kinds.items()
    }
    return frame.DataFrame(columns)


def pyplot(needed_by: str) -> Any:
    """The module matplotlib.pyplot; ``needed_by`` is named when it cannot be imported."""
    return _import("matplotlib.pyplot", "plot", needed_by)


def _import(module: str, extra: str, needed_by: str) -> ModuleType:
    package = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{needed_by} needs {package}, which cannot be imported ({error}); install it with "
            f"`pip install 'jostle-profiles[{extra}]'` or, on Debian, `apt install python3-{package}`"
        ) from error
