"""Reading an exported graph: complete, unchanged, valid. Pure."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphName, GraphNode, Source
from shared.errors import VigilError
from shared.graph.conclusions.citations import Citation, Kind, replaced
from shared.graph.entity_resolution import aliases
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, SourceRow, ThingRow
from shared.graph.scope import Scope
from shared.graph.transfer.exporter import (
    END,
    FORMAT,
    KINDS,
    VERSION,
    ContentLine,
    Counts,
    DoubtLine,
    EdgeLine,
    End,
    Head,
    NodeLine,
    SourceLine,
)
from shared.graph.transfer.limits import Limits
from shared.graph.verification import checks
from shared.graph.verification.checks import Broken, Fault, Spanned
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
    value: ContentLine


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
            value: ContentLine = self._parsed(KINDS[kind], body)
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

    def _refuse_beyond_limits(self, value: ContentLine) -> None:
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

    def _count(self, kind: str, value: ContentLine) -> None:
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


NewIds = Mapping[UUID, UUID]
"""New ids by old ones."""


def source(agent_id: UUID, row: SourceRow) -> SourceRow:
    moved = row.model_copy(update={"id": ids.source_id(agent_id, row.url, row.sha256)})
    return moved.model_copy(update={"seal": moved.sealed(agent_id)})


def renewed_evidence(
    agent_id: UUID, row: EvidenceRow, thing_id: UUID, source_id: UUID
) -> EvidenceRow:
    moved = row.model_copy(
        update={
            "id": ids.evidence_id(thing_id, source_id, row.first_byte, row.end_byte, row.says),
            "thing_id": thing_id,
            "source_id": source_id,
        }
    )
    return moved.model_copy(update={"seal": moved.sealed(agent_id)})


def node_id(old_agent: UUID, agent_id: UUID, row: NodeRow) -> UUID:
    """As its type and name have it, unless its old one was made of an earlier spelling."""
    if row.id == ids.node_id(old_agent, row.type, row.name):
        return ids.node_id(agent_id, row.type, row.name)
    return ids.moved_id(agent_id, row.id)


def node(agent_id: UUID, row: NodeRow, new_id: UUID, of_it: Sequence[UUID]) -> NodeRow:
    """`of_it` is its new evidence. What had no seal gets none."""
    moved = row.model_copy(update={"id": new_id})
    return moved.model_copy(update={"seal": row.seal and moved.sealed(agent_id, of_it)})


def edge(agent_id: UUID, row: EdgeRow, source_id: UUID, target_id: UUID) -> EdgeRow:
    """Between these nodes; not yet sealed."""
    new_id = ids.edge_id(agent_id, row.type, source_id, target_id)
    return row.model_copy(update={"id": new_id, "source_id": source_id, "target_id": target_id})


def sealed_edge(agent_id: UUID, row: EdgeRow, of_it: Sequence[UUID]) -> EdgeRow:
    return row.model_copy(update={"seal": row.seal and row.sealed(agent_id, of_it)})


def recited(value: Any, new_ids: NewIds) -> Any:
    """`value` with new ids in the citations of its texts; those of what is not there stay."""
    match value:
        case str():
            return replaced(value, _new_citation(new_ids))
        case list():
            return [recited(each, new_ids) for each in value]
        case dict():
            return {key: recited(each, new_ids) for key, each in value.items()}
        case _:
            return value


def _new_citation(new_ids: NewIds) -> Callable[[Citation], str | None]:
    def named(citation: Citation) -> str | None:
        new_id = new_ids.get(citation.id)
        return None if new_id is None else str(Citation(citation.kind, new_id))

    return named


Rows = list[dict[str, Any]]
L = TypeVar("L", SourceLine, NodeLine, EdgeLine)

Sources = Mapping[UUID, tuple[UUID, bool]]
"""By old id the new one, and whether it is retracted."""

_BESIDES: Final = {"evidence", "earlier_ids", "names", "doubts"}
"""What stands in a line beside the row."""


@dataclass(frozen=True)
class Known:
    """What has arrived before of all that a batch speaks of."""

    sources: Sources = field(default_factory=dict)
    quoted: Sequence[Sequence[Spanned]] = ()
    """Of each line its own."""
    ends: NewIds = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """Rows that are not written yet."""

    kind: str
    tables: Sequence[tuple[str, Rows]]
    """One after another: what is spoken of stands first."""
    pairs: Sequence[tuple[UUID, UUID, bool]]
    """Old ids, new ones, and whether what has them is a retracted page."""
    doubted: Sequence[tuple[UUID, DoubtLine]] = ()
    """By the new id of the conclusion."""


class Checker:
    """Every method raises BadFileError where a row is not as it was when it was sealed, or speaks of what is not there."""

    def __init__(self, old_agent: UUID, scope: Scope) -> None:
        """Whose graph it was, and whose it becomes."""
        self._old_agent = old_agent
        self._scope = scope
        self._agent_id = scope.agent_id

    def ready(self, batch: Sequence[Read], known: Known) -> Ready:
        """Of lines of one kind: sources, nodes or edges."""
        match batch[0].kind:
            case "source":
                return self._sources(batch)
            case "node":
                return self._nodes(batch, known)
            case _:
                return self._edges(batch, known)

    def _sources(self, batch: Sequence[Read]) -> Ready:
        rows, pairs = Rows(), list[tuple[UUID, UUID, bool]]()
        for number, line in _of_kind(batch, SourceLine):
            _refuse(number, checks.of_source(self._old_agent, line, integrity.sha256(line.text)))
            moved = source(self._agent_id, line)
            rows.append(self._owned(moved.model_dump()))
            pairs.append((line.id, moved.id, line.retracted_at is not None))
        return Ready("source", [(Source.__tablename__, rows)], pairs)

    def _nodes(self, batch: Sequence[Read], known: Known) -> Ready:
        rows, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID, bool]]()
        called, doubted = Rows(), list[tuple[UUID, DoubtLine]]()
        for (number, line), quoted in zip(_of_kind(batch, NodeLine), known.quoted, strict=True):
            self._refuse_evidence(number, quoted)
            _refuse(number, checks.of_node(self._old_agent, line, quoted))
            new_id = node_id(self._old_agent, self._agent_id, line)
            moved = self._moved(line.evidence, new_id, known.sources)
            row = node(self._agent_id, line, new_id, [each.id for each in moved])
            rows.append(self._thing(row, line, known.sources))
            called += [
                aliases.row(self._scope, (line.type, key), name, new_id)
                for key, name in line.names.items()
            ]
            doubted += [(new_id, each) for each in line.doubts]
            evidence += [self._evidence(each, Kind.NODE) for each in moved]
            pairs += [(old, new_id, False) for old in (line.id, *line.earlier_ids)]
        tables = [
            (GraphNode.__tablename__, rows),
            (GraphName.__tablename__, called),
            (Evidence.__tablename__, evidence),
        ]
        return Ready("node", tables, pairs, doubted)

    def _edges(self, batch: Sequence[Read], known: Known) -> Ready:
        rows, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID, bool]]()
        there = dict.fromkeys(known.ends, "")
        for (number, line), quoted in zip(_of_kind(batch, EdgeLine), known.quoted, strict=True):
            self._refuse_evidence(number, quoted)
            _refuse(number, checks.of_edge(self._old_agent, line, quoted, there))
            ends = known.ends[line.source_id], known.ends[line.target_id]
            row = edge(self._agent_id, line, *ends)
            moved = self._moved(line.evidence, row.id, known.sources)
            row = sealed_edge(self._agent_id, row, [each.id for each in moved])
            rows.append(self._thing(row, line, known.sources))
            evidence += [self._evidence(each, Kind.EDGE) for each in moved]
            pairs += [(old, row.id, False) for old in (line.id, *line.earlier_ids)]
        tables = [(GraphEdge.__tablename__, rows), (Evidence.__tablename__, evidence)]
        return Ready("edge", tables, pairs)

    def _refuse_evidence(self, number: int, evidence: Sequence[Spanned]) -> None:
        for each in evidence:
            _refuse(number, checks.of_evidence(self._old_agent, each))

    def _moved(
        self, evidence: Sequence[EvidenceRow], thing_id: UUID, sources: Sources
    ) -> list[EvidenceRow]:
        return [
            renewed_evidence(self._agent_id, each, thing_id, sources[each.source_id][0])
            for each in evidence
        ]

    def _evidence(self, row: EvidenceRow, kind: Kind) -> dict[str, Any]:
        values = row.model_dump()
        return self._owned({f"{kind}_id": values.pop("thing_id"), **values})

    def _thing(self, row: ThingRow, line: NodeLine | EdgeLine, sources: Sources) -> dict[str, Any]:
        flag = _unsupported_since(line.updated_at, line.evidence, sources)
        return self._owned({**row.model_dump(exclude=_BESIDES), **flag})

    def _owned(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"agent_id": self._agent_id, **values}


def _unsupported_since(
    moment: datetime, evidence: Sequence[EvidenceRow], sources: Sources
) -> dict[str, datetime | None]:
    """What rests on retracted pages alone was flagged when it was touched last."""
    alone = bool(evidence) and all(sources[each.source_id][1] for each in evidence)
    return {"unsupported_since": moment if alone else None}


def _of_kind(batch: Sequence[Read], kind: type[L]) -> Iterator[tuple[int, L]]:
    """With the number of each line."""
    for read in batch:
        assert isinstance(read.value, kind)
        yield read.number, read.value


def _refuse(number: int, faults: Iterable[Fault]) -> None:
    """Raises BadFileError for whatever is wrong; that something has no proof is not wrong."""
    for fault in faults:
        if fault.broken is not Broken.UNPROVEN:
            raise BadFileError(
                f"line {number}: {fault.told}: this graph was changed behind Vigil's back; "
                "`vigil verify --all`, where it came from, tells more"
            )
