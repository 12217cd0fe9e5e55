"""Reads an exported graph and checks that it is complete, unchanged and valid. Pure."""

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
from shared.graph.conclusions.citations import Citation, Kind, replace_citations
from shared.graph.entity_resolution import aliases
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, SourceRow, ThingRow
from shared.graph.scope import GraphScope
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
    count_line,
)
from shared.graph.transfer.limits import Limits
from shared.graph.verification import checks
from shared.graph.verification.checks import Fault, FaultKind, QuotedEvidence
from shared.tools import ToolRefusalError

MAX_LINE_BYTES: Final = 64 * 1024**2
MAX_PLACE_CHARS: Final = 200
T = TypeVar("T", bound=BaseModel)

_ORDER: Final = (*KINDS, END)


class BadFileError(VigilError):
    """The file is no exported graph, is incomplete, or was changed since the export."""


@dataclass(frozen=True)
class ParsedLine:
    number: int
    """Line number, starting at 1."""
    kind: str
    value: ContentLine


class ExportedGraph:
    """An exported file: read `head` first, then all of `contents`, which checks at its end that the file is complete.

    Both raise BadFileError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._number = 0
        self._counts = Counter[str]()
        self._limits = Limits()

    @property
    def counts(self) -> Counts:
        """Counts of what was read so far."""
        return Counts(**self._counts)

    def head(self) -> Head:
        text = self._next()
        self._digest.update(text)
        try:
            return Head.model_validate_json(text)
        except ValidationError as error:
            raise BadFileError(
                f"this file was not written by `vigil export` as JSON Lines: its first line should be of format {FORMAT!r}, "
                f"version {VERSION} ({describe_first_error(error)})"
            ) from error

    def contents(self) -> Iterator[ParsedLine]:
        kind_index = 0
        while True:
            text = self._next()
            kind, body = self._split_line(text)
            if kind == END:
                self._check_end(self._parse(End, body))
                return
            self._digest.update(text)
            kind_index = self._check_order(kind, kind_index)
            value: ContentLine = self._parse(KINDS[kind], body)
            self._refuse_beyond_limits(value)
            count_line(self._counts, kind, value)
            yield ParsedLine(self._number, kind, value)

    def _next(self) -> bytes:
        text = self._file.readline(MAX_LINE_BYTES + 1)
        self._number += 1
        if len(text) > MAX_LINE_BYTES:
            raise BadFileError(f"line {self._number} is longer than {MAX_LINE_BYTES:,} bytes")
        if not text.endswith(b"\n"):
            raise BadFileError(
                f"the file ends within line {self._number}: it was cut short, export it again"
                if text
                else f"the file ends after line {self._number - 1}, without its last line: it was cut short, export it again"
            )
        return text

    def _split_line(self, text: bytes) -> tuple[str, bytes]:
        """Split a line into kind and value: `{"node":{…}}`."""
        opening, colon, remainder = text.partition(b":")
        kind = opening[2:-1].decode(errors="replace")
        if (
            not colon
            or opening[:2] != b'{"'
            or kind not in _ORDER
            or not remainder.endswith(b"}\n")
        ):
            raise BadFileError(f"line {self._number} has an unknown kind")
        return kind, remainder[:-2]

    def _parse(self, model: type[T], body: bytes) -> T:
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            raise BadFileError(f"line {self._number}: {describe_first_error(error)}") from error

    def _refuse_beyond_limits(self, value: ContentLine) -> None:
        try:
            self._limits.refuse(value)
        except ToolRefusalError as error:
            raise BadFileError(f"line {self._number}: {str(error).rstrip('.')}") from error

    def _check_order(self, kind: str, last_index: int) -> int:
        kind_index = _ORDER.index(kind)
        if kind_index < last_index:
            raise BadFileError(
                f"line {self._number}: {kind} comes after {_ORDER[last_index]}, but must come before it"
            )
        return kind_index

    def _check_end(self, end: End) -> None:
        if end.counts != self.counts:
            raise BadFileError("the counts in the last line do not match the file: export it again")
        if end.sha256 != self._digest.hexdigest():
            raise BadFileError(
                "the file was changed after the export: its SHA-256 does not match the one in its last line"
            )
        if self._file.read(1):
            raise BadFileError(f"there is more data after line {self._number}, the last line")


def describe_first_error(error: ValidationError) -> str:
    """The first validation error with its location."""
    details = error.errors()[0]
    location = ".".join(map(str, details["loc"]))[:MAX_PLACE_CHARS]
    message = details["msg"].removeprefix("Value error, ")
    return f"{location}: {message}" if location else message


NewIds = Mapping[UUID, UUID]
"""New ids by old ids."""


def remap_source(agent_id: UUID, row: SourceRow) -> SourceRow:
    remapped = row.model_copy(update={"id": ids.source_id(agent_id, row.url, row.sha256)})
    return remapped.model_copy(update={"seal": remapped.sealed(agent_id)})


def remap_evidence(
    agent_id: UUID, row: EvidenceRow, element_id: UUID, source_id: UUID
) -> EvidenceRow:
    remapped = row.model_copy(
        update={
            "id": ids.evidence_id(
                element_id, source_id, row.first_byte, row.end_byte, row.content_key
            ),
            "element_id": element_id,
            "source_id": source_id,
        }
    )
    return remapped.model_copy(update={"seal": remapped.sealed(agent_id)})


def remap_node_id(old_agent: UUID, agent_id: UUID, row: NodeRow) -> UUID:
    """Derived from type and name, unless the old id derives from an earlier spelling."""
    if row.id == ids.node_id(old_agent, row.type, row.name):
        return ids.node_id(agent_id, row.type, row.name)
    return ids.imported_id(agent_id, row.id)


def remap_node(agent_id: UUID, row: NodeRow, new_id: UUID, evidence_ids: Sequence[UUID]) -> NodeRow:
    """`evidence_ids` holds the ids of its new evidence. A node without a seal gets none."""
    remapped = row.model_copy(update={"id": new_id})
    return remapped.model_copy(
        update={"seal": row.seal and remapped.sealed(agent_id, evidence_ids)}
    )


def remap_edge(agent_id: UUID, row: EdgeRow, source_id: UUID, target_id: UUID) -> EdgeRow:
    """The edge between these nodes, not yet sealed."""
    new_id = ids.edge_id(agent_id, row.type, source_id, target_id)
    return row.model_copy(update={"id": new_id, "source_id": source_id, "target_id": target_id})


def seal_edge(agent_id: UUID, row: EdgeRow, evidence_ids: Sequence[UUID]) -> EdgeRow:
    return row.model_copy(update={"seal": row.seal and row.sealed(agent_id, evidence_ids)})


def remap_citations(value: Any, new_ids: NewIds) -> Any:
    """Replace the ids in the citations of all texts in `value`; unknown ids stay."""
    match value:
        case str():
            return replace_citations(value, _new_citation(new_ids))
        case list():
            return [remap_citations(item, new_ids) for item in value]
        case dict():
            return {key: remap_citations(item, new_ids) for key, item in value.items()}
        case _:
            return value


def _new_citation(new_ids: NewIds) -> Callable[[Citation], str | None]:
    def replacement(citation: Citation) -> str | None:
        new_id = new_ids.get(citation.id)
        return None if new_id is None else str(Citation(citation.kind, new_id))

    return replacement


Rows = list[dict[str, Any]]
L = TypeVar("L", SourceLine, NodeLine, EdgeLine)

Sources = Mapping[UUID, tuple[UUID, bool]]
"""By old id the new id, and whether the source is retracted."""

_EXTRA_FIELDS: Final = {"evidence", "earlier_ids", "names", "doubts"}
"""Fields of a line that are not columns of the row."""


@dataclass(frozen=True)
class ImportedRows:
    """What a batch refers to and has been imported before."""

    sources: Sources = field(default_factory=dict)
    quoted: Sequence[Sequence[QuotedEvidence]] = ()
    """One sequence per line."""
    ends: NewIds = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedRows:
    """Rows that are not written yet."""

    kind: str
    tables: Sequence[tuple[str, Rows]]
    """In the order of their references."""
    pairs: Sequence[tuple[UUID, UUID, bool]]
    """Old id, new id, and whether it belongs to a retracted source."""
    doubted: Sequence[tuple[UUID, DoubtLine]] = ()
    """By the new id of the conclusion."""


class RowPreparer:
    """Checks lines and turns them into rows of the new agent.

    Every method raises BadFileError if a row does not match its seal, or refers to something that does not exist.
    """

    def __init__(self, old_agent: UUID, scope: GraphScope) -> None:
        """`old_agent` is the exported agent, `scope` the new one."""
        self._old_agent = old_agent
        self._scope = scope
        self._agent_id = scope.agent_id

    def prepare(self, batch: Sequence[ParsedLine], imported: ImportedRows) -> PreparedRows:
        """Prepare lines of one kind: sources, nodes or edges."""
        match batch[0].kind:
            case "source":
                return self._prepare_sources(batch)
            case "node":
                return self._prepare_nodes(batch, imported)
            case _:
                return self._prepare_edges(batch, imported)

    def _prepare_sources(self, batch: Sequence[ParsedLine]) -> PreparedRows:
        rows, pairs = Rows(), list[tuple[UUID, UUID, bool]]()
        for number, line in _lines_of_type(batch, SourceLine):
            _refuse_faults(
                number, checks.check_source(self._old_agent, line, integrity.sha256(line.text))
            )
            remapped = remap_source(self._agent_id, line)
            rows.append(self._with_agent_id(remapped.model_dump()))
            pairs.append((line.id, remapped.id, line.retracted_at is not None))
        return PreparedRows("source", [(Source.__tablename__, rows)], pairs)

    def _prepare_nodes(self, batch: Sequence[ParsedLine], imported: ImportedRows) -> PreparedRows:
        rows, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID, bool]]()
        name_rows, doubts = Rows(), list[tuple[UUID, DoubtLine]]()
        for (number, line), quoted in zip(
            _lines_of_type(batch, NodeLine), imported.quoted, strict=True
        ):
            self._refuse_evidence(number, quoted)
            _refuse_faults(number, checks.check_node(self._old_agent, line, quoted))
            new_id = remap_node_id(self._old_agent, self._agent_id, line)
            remapped = self._remap_evidence(line.evidence, new_id, imported.sources)
            row = remap_node(self._agent_id, line, new_id, [item.id for item in remapped])
            rows.append(self._element_row(row, line, imported.sources))
            name_rows += [
                aliases.name_row(self._scope, (line.type, key), name, new_id)
                for key, name in line.names.items()
            ]
            doubts += [(new_id, item) for item in line.doubts]
            evidence += [self._evidence_row(item, Kind.NODE) for item in remapped]
            pairs += [(old, new_id, False) for old in (line.id, *line.earlier_ids)]
        tables = [
            (GraphNode.__tablename__, rows),
            (GraphName.__tablename__, name_rows),
            (Evidence.__tablename__, evidence),
        ]
        return PreparedRows("node", tables, pairs, doubts)

    def _prepare_edges(self, batch: Sequence[ParsedLine], imported: ImportedRows) -> PreparedRows:
        rows, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID, bool]]()
        existing_ends = dict.fromkeys(imported.ends, "")
        for (number, line), quoted in zip(
            _lines_of_type(batch, EdgeLine), imported.quoted, strict=True
        ):
            self._refuse_evidence(number, quoted)
            _refuse_faults(number, checks.check_edge(self._old_agent, line, quoted, existing_ends))
            ends = imported.ends[line.source_id], imported.ends[line.target_id]
            row = remap_edge(self._agent_id, line, *ends)
            remapped = self._remap_evidence(line.evidence, row.id, imported.sources)
            row = seal_edge(self._agent_id, row, [item.id for item in remapped])
            rows.append(self._element_row(row, line, imported.sources))
            evidence += [self._evidence_row(item, Kind.EDGE) for item in remapped]
            pairs += [(old, row.id, False) for old in (line.id, *line.earlier_ids)]
        tables = [(GraphEdge.__tablename__, rows), (Evidence.__tablename__, evidence)]
        return PreparedRows("edge", tables, pairs)

    def _refuse_evidence(self, number: int, evidence: Sequence[QuotedEvidence]) -> None:
        for quoted in evidence:
            _refuse_faults(number, checks.check_evidence(self._old_agent, quoted))

    def _remap_evidence(
        self, evidence: Sequence[EvidenceRow], element_id: UUID, sources: Sources
    ) -> list[EvidenceRow]:
        return [
            remap_evidence(self._agent_id, row, element_id, sources[row.source_id][0])
            for row in evidence
        ]

    def _evidence_row(self, row: EvidenceRow, kind: Kind) -> dict[str, Any]:
        values = row.model_dump()
        return self._with_agent_id({f"{kind}_id": values.pop("element_id"), **values})

    def _element_row(
        self, row: ThingRow, line: NodeLine | EdgeLine, sources: Sources
    ) -> dict[str, Any]:
        unsupported = _unsupported_since(line.updated_at, line.evidence, sources)
        return self._with_agent_id({**row.model_dump(exclude=_EXTRA_FIELDS), **unsupported})

    def _with_agent_id(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"agent_id": self._agent_id, **values}


def _unsupported_since(
    updated_at: datetime, evidence: Sequence[EvidenceRow], sources: Sources
) -> dict[str, datetime | None]:
    """An element that rests only on retracted sources was flagged at its last update."""
    is_unsupported = bool(evidence) and all(sources[row.source_id][1] for row in evidence)
    return {"unsupported_since": updated_at if is_unsupported else None}


def _lines_of_type(batch: Sequence[ParsedLine], line_type: type[L]) -> Iterator[tuple[int, L]]:
    """The values with their line numbers."""
    for parsed in batch:
        assert isinstance(parsed.value, line_type)
        yield parsed.number, parsed.value


def _refuse_faults(number: int, faults: Iterable[Fault]) -> None:
    """Raises BadFileError for every fault except a missing proof."""
    for fault in faults:
        if fault.kind is not FaultKind.UNPROVEN:
            raise BadFileError(
                f"line {number}: {fault.description}: this graph was changed outside Vigil; "
                "run `vigil verify --all` where it was exported for details"
            )
