"""An exported graph read line by line: whether it is one, is whole, and is as it was written."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import VigilError
from shared.graph.transfer.limits import Limits
from shared.graph.transfer.lines import (
    END,
    FORMAT,
    KINDS,
    VERSION,
    Content,
    Counts,
    EdgeLine,
    End,
    Head,
    NodeLine,
)
from shared.tools import ToolRefusalError

LONGEST_LINE_BYTES: Final = 64 * 1024**2
MOST_PLACE_CHARACTERS: Final = 200
T = TypeVar("T", bound=BaseModel)

_ORDER: Final = (*KINDS, END)


class BadFileError(VigilError):
    """What was given is no exported graph, or not all of it, or was changed since."""


@dataclass(frozen=True)
class Read:
    number: int
    """Of the line, from 1."""
    kind: str
    value: Content


class ExportedGraph:
    """A file as it is read: first `head`, then all of `contents`, at whose end it is known to be whole.

    Both raise BadFileError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._told = hashlib.sha256()
        self._number = 0
        self._counts = Counter[str]()
        self._limits = Limits()

    @property
    def counts(self) -> Counts:
        """Of what was read so far."""
        return Counts(**self._counts)

    def head(self) -> Head:
        text = self._next()
        self._told.update(text)
        try:
            return Head.model_validate_json(text)
        except ValidationError as error:
            raise BadFileError(
                f"this is no graph that `vigil export` wrote as JSON Lines: its first line should be of format {FORMAT!r}, "
                f"version {VERSION} ({first_fault(error)})"
            ) from error

    def contents(self) -> Iterator[Read]:
        place = 0
        while True:
            text = self._next()
            kind, body = self._parted(text)
            if kind == END:
                self._check_end(self._parsed(End, body))
                return
            self._told.update(text)
            place = self._placed(kind, place)
            value: Content = self._parsed(KINDS[kind], body)
            self._refuse_beyond_limits(value)
            self._count(kind, value)
            yield Read(self._number, kind, value)

    def _next(self) -> bytes:
        text = self._file.readline(LONGEST_LINE_BYTES + 1)
        self._number += 1
        if len(text) > LONGEST_LINE_BYTES:
            raise BadFileError(f"line {self._number} is longer than {LONGEST_LINE_BYTES:,} bytes")
        if not text.endswith(b"\n"):
            raise BadFileError(
                f"the file ends within line {self._number}: it was cut short, export it again"
                if text
                else f"the file ends after line {self._number - 1}, without its last line: it was cut short, export it again"
            )
        return text

    def _parted(self, text: bytes) -> tuple[str, bytes]:
        """`{"node":{…}}` is a node and what it says."""
        opening, colon, rest = text.partition(b":")
        kind = opening[2:-1].decode(errors="replace")
        if not colon or opening[:2] != b'{"' or kind not in _ORDER or not rest.endswith(b"}\n"):
            raise BadFileError(f"line {self._number} is of no kind that there is")
        return kind, rest[:-2]

    def _parsed(self, shape: type[T], body: bytes) -> T:
        try:
            return shape.model_validate_json(body)
        except ValidationError as error:
            raise BadFileError(f"line {self._number}: {first_fault(error)}") from error

    def _refuse_beyond_limits(self, value: Content) -> None:
        try:
            self._limits.refuse(value)
        except ToolRefusalError as error:
            raise BadFileError(f"line {self._number}: {str(error).rstrip('.')}") from error

    def _placed(self, kind: str, place: int) -> int:
        found = _ORDER.index(kind)
        if found < place:
            raise BadFileError(
                f"line {self._number}: {kind} stands behind {_ORDER[place]}, and should stand before it"
            )
        return found

    def _count(self, kind: str, value: Content) -> None:
        self._counts[f"{kind}s"] += 1
        if isinstance(value, NodeLine | EdgeLine):
            self._counts["evidence"] += len(value.evidence)

    def _check_end(self, end: End) -> None:
        if end.counts != self.counts:
            raise BadFileError("the last line counts other lines than there are: export it again")
        if end.sha256 != self._told.hexdigest():
            raise BadFileError(
                "the file was changed since it was written: its lines do not give the SHA-256 of its last line"
            )
        if self._file.read(1):
            raise BadFileError(f"there is something behind the last line, which is {self._number}")


def first_fault(error: ValidationError) -> str:
    """What is wrong first, and where."""
    fault = error.errors()[0]
    where = ".".join(map(str, fault["loc"]))[:MOST_PLACE_CHARACTERS]
    said = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
