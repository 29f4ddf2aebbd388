"""Reads JSON documents that name their format, and their keys with their paths."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from typing import Any

from ._version import VERSION
from .errors import ProfileError

LONGEST_BYTES = 64 << 20
"""Longest document that is read, bytes: the limit of the program ``jostle``."""


class Problem(Exception):
    """What is wrong with a document, before the file is known."""


def read_bytes(path: str | os.PathLike[str], longest: int) -> bytes:
    """The bytes of the regular file at ``path``.

    Raises ProfileError when it cannot be read, is a directory, a pipe or a
    device, or is longer than ``longest`` bytes.
    """
    try:
        # Before opening, which would wait for the other end of a pipe; and after it, as
        # somebody may have put another there meanwhile.
        _check_regular(path, os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            _check_regular(path, os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(longest + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise ProfileError(path, "no such file; check the name") from None
    except OSError as error:
        raise ProfileError(path, f"cannot be read: {error.strerror}; {_fix(error)}") from error
    except ProfileError:
        raise
    except ValueError as error:
        raise ProfileError(path, f"is no file name ({error}); check the name") from None
    if len(data) > longest:
        limit = f"{longest >> 20} MiB" if longest >= 1 << 20 else f"{longest} bytes"
        raise ProfileError(
            path, f"longer than {limit}, far more than a profile takes; name another file"
        )
    return data


def _check_regular(path: str | os.PathLike[str], mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ProfileError(path, "is a directory; name a file in it")
    if not stat.S_ISREG(mode):
        raise ProfileError(
            path, "not a regular file but a pipe, a socket or a device; write it to a file first"
        )


def _fix(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "change its permissions, or run as its owner"
    return "check the file"


def parse(data: bytes, name: str, what: str) -> Node:
    """The document in ``data``, whose format must be ``name/1`` or ``name/1.x``.

    ``what`` is what a person calls such a document. Raises Problem.
    """
    if not data.strip():
        raise Problem(f"the file is empty; a {what} is a JSON document; measure or copy it again")
    document = _json(data)
    if not isinstance(document, dict):
        raise Problem(f"not a {what}: it is not a JSON object with a `format`; name another file")
    found = document.get("format")
    wanted = f"{name}/1"
    if found is None:
        raise Problem(f'not a {what}: no key `format` (expected "{wanted}"); name another file')
    family, slash, version = str(found).partition("/")
    if not isinstance(found, str) or family != name or not slash:
        raise Problem(f'not a {what}: `format` is {json.dumps(found)[:80]}, not "{wanted}"; name another file')
    major = version.partition(".")[0]
    if not (major.isascii() and major.isdigit()) or int(major[:9]) == 0:
        raise Problem(
            f'format {json.dumps(found)[:80]} is not a version that Jostle ever wrote; this one reads "{wanted}"; '
            "measure or copy it again"
        )
    if int(major[:9]) > 1:
        raise Problem(
            f"format {json.dumps(found)[:80]} needs a newer jostle-profiles; this one ({VERSION}) reads up to "
            f'"{wanted}"; upgrade with `pip install --upgrade jostle-profiles`'
        )
    return Node(document, "")


def format_of(data: bytes) -> str | None:
    """The key ``format`` of the document in ``data``, if it has one."""
    try:
        document = _json(data)
    except Problem:
        return None
    found = document.get("format") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


def _json(data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(f"not UTF-8 text (byte {error.start}); name a JSON file") from None
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        if error.msg.startswith("Unterminated") or len(text.rstrip()) - error.pos < 5:
            raise Problem(
                f"not valid JSON: {error.msg} at {where}: the file looks cut short; copy or measure it again"
            ) from None
        raise Problem(f"not valid JSON: {error.msg} at {where}; mend it or measure again") from None
    except RecursionError:
        raise Problem("nested too deeply for a JSON document of Jostle; name another file") from None
    except ValueError as error:
        # Integers of thousands of digits.
        raise Problem(f"not valid JSON: {error}; mend it or measure again") from None


def _no_constant(constant: str) -> Any:
    raise Problem(
        f"holds {constant}; only finite numbers have a place in the file, and what is not known is left out; "
        "mend the program that wrote it"
    )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _no_constant(text[:40])
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Problem(f"key `{key}` is there twice in one object; keep one of the two")
            seen.add(key)
    return document


class Node:
    """A value of a document, and the path of its key."""

    __slots__ = ("value", "key")

    def __init__(self, value: Any, key: str) -> None:
        self.value = value
        self.key = key

    def refuse(self, problem: str) -> Problem:
        return Problem(f"key `{self.key}`: {problem}")

    def at(self, key: str) -> Node:
        """The value of a key that must be there."""
        found = self.maybe(key)
        if found is None:
            raise Problem(f"key `{self._path(key)}` is missing; mend the file or measure again")
        return found

    def maybe(self, key: str) -> Node | None:
        """The value of a key; None where it is absent or null."""
        value = self.object().get(key)
        return None if value is None else Node(value, self._path(key))

    def items(self) -> Iterator[tuple[str, Node]]:
        for key, value in self.object().items():
            yield key, Node(value, self._path(key))

    def elements(self) -> list[Node]:
        if not isinstance(self.value, list):
            raise self._type("a list")
        return [Node(value, f"{self.key}[{at}]") for at, value in enumerate(self.value)]

    def object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self._type("an object")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self._type("a text")
        return self.value

    def one_of(self, *known: str) -> str:
        text = self.text()
        if text not in known:
            raise self.refuse(f'is "{text[:40]}"; it is one of {", ".join(known)}')
        return text

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self._type("true or false")
        return self.value

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self._type("a number")
        try:
            value = float(self.value)
        except OverflowError:
            raise self.refuse("is larger than any number of the format") from None
        if not low <= value <= high:
            if high == math.inf:
                raise self.refuse(f"is {value:g}; it is at least {low:g}")
            raise self.refuse(f"is {value:g}; the scale is {low:g} to {high:g}")
        return value

    def count(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 0:
            raise self._type("a whole number of at least 0")
        return self.value

    def interval(self) -> tuple[float, float]:
        ends = [end.number() for end in self.elements()]
        if len(ends) != 2:
            raise self.refuse(f"holds {len(ends)} numbers; an interval has two")
        if ends[0] > ends[1]:
            raise self.refuse(f"is [{ends[0]:g}, {ends[1]:g}]; write the lower end first")
        return ends[0], ends[1]

    def unavailable(self) -> str | None:
        """The reason, where the value is ``{"unavailable": reason}``."""
        if isinstance(self.value, dict) and "unavailable" in self.value:
            return self.at("unavailable").text()
        return None

    def _path(self, key: str) -> str:
        return f"{self.key}.{key}" if self.key else key

    def _type(self, wanted: str) -> Problem:
        return self.refuse(f"is {json.dumps(self.value)[:40]}; it must be {wanted}")
