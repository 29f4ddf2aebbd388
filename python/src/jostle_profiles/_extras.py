"""Packages that only a part of this one needs."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def pandas(needed_by: str) -> Any:
    """The module pandas; ``needed_by`` is named when it cannot be imported."""
    return _import("pandas", "pandas", needed_by)


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
