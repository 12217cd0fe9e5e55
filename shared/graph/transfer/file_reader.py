"""Reads an exported graph and checks that it is complete, unchanged and valid. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from shared.database import ids
from shared.enums import ADVICE_TYPE
from shared.errors import VigilError
from shared.graph.conclusions.citations import Citation, replace_citations
from shared.graph.conclusions.proofs import ProofRow
from shared.graph.entity_resolution import aliases
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import EvidenceRow
from shared.graph.provenance.sources import MAX_URL_BYTES
from shared.graph.provenance.speakers import refuse_speaker
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
    EdgeTypeLine,
    End,
    Head,
    NodeLine,
    NodeTypeLine,
    PositionLine,
    ProofLine,
    SourceLine,
    count_line,
)
from shared.graph.types import (
    MAX_TYPES,
    RESERVED_TYPES,
    SYSTEM_CREATOR,
    normalize_description,
    normalize_justification,
    refuse_edge_type_name,
    refuse_node_type_name,
)
from shared.graph.validation import (
    MAX_NAME_CHARS,
    refuse_bad_schema,
    refuse_large,
    refuse_unstorable,
)
from shared.graph.verification import checks
from shared.graph.verification.checks import FaultKind, Faults, QuotedEvidence
from shared.tools import ToolRefusalError
from shared.tools.readings import MAX_REASON_CHARS

MAX_INTEGER: Final = 10**309
"""A float written out in full has at most this many digits."""
MAX_BYTE: Final = 2**31 - 1
MAX_CREATOR_CHARS: Final = 100


class Limits:
    """The limits for one file. Types precede the elements that use them."""

    def __init__(self) -> None:
        self._node_types: set[str] = set()
        self._edge_types: set[str] = set()

    def refuse(self, line: ContentLine) -> None:
        """Raises ToolRefusalError if the tools could not have written the line."""
        _refuse_moments(line)
        match line:
            case EdgeTypeLine():
                refuse_edge_type_name(line.name)
                _refuse_type(line, self._edge_types)
            case NodeTypeLine():
                if line.name not in RESERVED_TYPES or line.created_by != SYSTEM_CREATOR:
                    refuse_node_type_name(line.name)
                _refuse_type(line, self._node_types)
            case SourceLine():
                _refuse_source(line)
            case NodeLine():
                _refuse_unknown(line.type, "node type", self._node_types)
                _refuse_names(line)
                _refuse_element(line)
            case EdgeLine():
                _refuse_unknown(line.type, "edge type", self._edge_types)
                _refuse_element(line)


def _refuse_type(line: NodeTypeLine, type_names: set[str]) -> None:
    normalize_description(line.description)
    normalize_justification(line.justification)
    if not 1 <= len(line.created_by) <= MAX_CREATOR_CHARS:
        raise ToolRefusalError(f"created_by: give 1 to {MAX_CREATOR_CHARS} characters.")
    # System edge types, and those from before edges had properties, have no schema.
    if line.properties_schema or not isinstance(line, EdgeTypeLine):
        refuse_bad_schema(line.properties_schema)
    refuse_unstorable(line.example_properties, "example_properties")
    refuse_large(line.example_properties, "example_properties")
    if line.name in type_names:
        raise ToolRefusalError(f"the type {line.name} is defined twice.")
    type_names.add(line.name)
    # System types do not count towards the limit.
    if len(type_names) > MAX_TYPES + len(RESERVED_TYPES):
        raise ToolRefusalError(f"an agent has at most {MAX_TYPES} such types.")


def _refuse_source(line: SourceLine) -> None:
    if not line.url or len(line.url.encode()) > MAX_URL_BYTES:
        raise ToolRefusalError(f"url: give 1 to {MAX_URL_BYTES} bytes.")
    for name in ("url", "title", "retraction_reason", "text"):
        refuse_unstorable(getattr(line, name), name)
    refuse_unstorable(line.reading, "reading", largest=MAX_BYTE)


def _refuse_unknown(type_name: str, type_kind: str, type_names: set[str]) -> None:
    if type_name not in type_names:
        raise ToolRefusalError(f"the file has no {type_kind} {type_name[:80]!r}.")


def _refuse_names(line: NodeLine) -> None:
    for name in (line.name, *line.names.values()):
        refuse_unstorable(name, "name")
        if not 1 <= len(name) <= MAX_NAME_CHARS:
            raise ToolRefusalError(f"name: {len(name)} characters; give 1 to {MAX_NAME_CHARS}.")
    for key in line.names:
        refuse_unstorable(key, "a key of names")


def _refuse_element(line: NodeLine | EdgeLine) -> None:
    refuse_unstorable(line.properties, "properties", largest=MAX_INTEGER)
    for evidence in line.evidence:
        _refuse_moments(evidence)
        refuse_unstorable(evidence.claims, "claims", largest=MAX_INTEGER)
        if evidence.speaker is not None:
            refuse_speaker(evidence.speaker)
        if not 0 <= evidence.first_byte < evidence.end_byte <= MAX_BYTE:
            raise ToolRefusalError("evidence: its byte range is invalid.")
    known = {evidence.id: evidence.claims for evidence in line.evidence}
    for refusal in line.refusals:
        _refuse_moments(refusal)
        refuse_unstorable([refusal.reason, refusal.model], "refusals")
        if refusal.property not in ("", *known.get(refusal.evidence_id, ())):
            raise ToolRefusalError("refusals: no evidence of the line has this value.")
        if refusal.evidence_id not in known or len(refusal.reason) > MAX_REASON_CHARS:
            raise ToolRefusalError("refusals: its evidence or its reason is invalid.")
    if isinstance(line, NodeLine):
        refuse_unstorable(line.rules, "rules", largest=MAX_INTEGER)
        if line.position is not None:
            if line.type != ADVICE_TYPE:
                raise ToolRefusalError("position: only advice has one.")
            _refuse_moments(line.position)
            refuse_unstorable(line.position.reason, "reason")
        for doubt in line.doubts:
            _refuse_moments(doubt)
        if line.proof and line.type not in RESERVED_TYPES:
            raise ToolRefusalError("proof: only conclusions have one.")
        for row in line.proof:
            texts = [row.stated, row.type, row.name, row.property, row.value]
            refuse_unstorable(texts, "proof", largest=MAX_INTEGER)
            if not 0 <= row.first_byte < row.end_byte <= MAX_BYTE:
                raise ToolRefusalError("proof: its byte range is invalid.")


def _refuse_moments(line: BaseModel) -> None:
    for name, value in line:
        if isinstance(value, datetime):
            try:
                has_zone = value.tzinfo is not None and value.astimezone(UTC) is not None
            except OverflowError:
                has_zone = False
            if not has_zone:
                raise ToolRefusalError(f"{name}: {value} is not a UTC time.")


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
                "this file was not written by `vigil export --format jsonl`: its first line must have the "
                f"format {FORMAT!r}, "
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
                f"the file ends within line {self._number} and is incomplete: export it again"
                if text
                else f"the file ends after line {self._number - 1} and lacks its last line: export it again"
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
            raise BadFileError("the counts in the last line do not match the file; export it again")
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


Rows = list[dict[str, Any]]
ImportedIds = Mapping[UUID, tuple[UUID, bool]]
"""By old id the new id, and whether it is that of a retracted source."""

_EXTRA_FIELDS: Final = {
    *("evidence", "refusals", "earlier_ids", "names", "doubts", "position", "proof", "beside"),
}
"""Fields of a line that are not columns of the row."""


@dataclass(frozen=True)
class PreparedRows:
    """Rows that are not written yet."""

    kind: str
    tables: Sequence[tuple[str, Rows]]
    """In the order of their references."""
    pairs: Sequence[tuple[UUID, UUID, bool]] = ()
    """Old id, new id, and whether it belongs to a retracted source."""
    doubted: Sequence[tuple[UUID, DoubtLine]] = ()
    """By the new id of the conclusion."""
    positions: Sequence[tuple[UUID, PositionLine]] = ()
    """By the new id of the advice."""
    proofs: Sequence[tuple[UUID, Sequence[ProofLine]]] = ()
    """By the new id of the conclusion."""


class RowPreparer:
    """Checks lines and turns them into rows of the new agent.

    Raises BadFileError if a row does not match its seal, or refers to something that does not exist.
    """

    def __init__(self, old_agent: UUID, scope: GraphScope) -> None:
        """`old_agent` is the exported agent, `scope` the new one."""
        self._old_agent = old_agent
        self._scope = scope
        self._agent_id = scope.agent_id

    def prepare(
        self,
        batch: Sequence[ParsedLine],
        imported: ImportedIds,
        quoted: Sequence[Sequence[QuotedEvidence]],
    ) -> PreparedRows:
        """Prepare lines of one kind. `imported` is what they refer to, `quoted` the evidence of each node or edge."""
        match batch[0].kind:
            case "node_type":
                return self._prepare_types(batch, "graph_node_types")
            case "edge_type":
                return self._prepare_types(batch, "graph_edge_types")
            case "source":
                return self._prepare_sources(batch)
            case _:
                return self._prepare_elements(batch, imported, quoted)

    def _prepare_types(self, batch: Sequence[ParsedLine], table: str) -> PreparedRows:
        rows = [{"agent_id": self._agent_id, **line.value.model_dump()} for line in batch]
        return PreparedRows(batch[0].kind, [(table, rows)])

    def _prepare_sources(self, batch: Sequence[ParsedLine]) -> PreparedRows:
        rows, pairs = Rows(), list[tuple[UUID, UUID, bool]]()
        for parsed in batch:
            line = parsed.value
            assert isinstance(line, SourceLine)
            text_sha256 = integrity.sha256(line.text)
            _refuse_faults(parsed, checks.check_source(self._old_agent, line, text_sha256))
            new_id = ids.source_id(self._agent_id, line.url, line.sha256)
            seal = line.model_copy(update={"id": new_id}).sealed(self._agent_id)
            columns = {"agent_id": self._agent_id, "id": new_id, "seal": seal}
            rows.append(line.model_dump() | columns)
            pairs.append((line.id, new_id, line.retracted_at is not None))
        return PreparedRows("source", [("sources", rows)], pairs)

    def _prepare_elements(
        self,
        batch: Sequence[ParsedLine],
        imported: ImportedIds,
        quoted: Sequence[Sequence[QuotedEvidence]],
    ) -> PreparedRows:
        rows, names, evidence, refusals = Rows(), Rows(), Rows(), Rows()
        pairs, doubts = list[tuple[UUID, UUID, bool]](), list[tuple[UUID, DoubtLine]]()
        positions = list[tuple[UUID, PositionLine]]()
        proofs = list[tuple[UUID, Sequence[ProofLine]]]()
        existing_ends = dict.fromkeys(imported, "")
        for parsed, quotes in zip(batch, quoted, strict=True):
            line = parsed.value
            assert isinstance(line, NodeLine | EdgeLine)
            for quote in quotes:
                _refuse_faults(parsed, checks.check_evidence(self._old_agent, quote))
            if isinstance(line, NodeLine):
                _refuse_faults(parsed, checks.check_node(self._old_agent, line, quotes))
                new_id = self._new_node_id(line)
                new_ids = {"id": new_id}
                names += [
                    aliases.name_row(self._scope, (line.type, key), name, new_id)
                    for key, name in line.names.items()
                ]
                doubts += [(new_id, doubt) for doubt in line.doubts]
                if line.position is not None:
                    positions.append((new_id, line.position))
                if checks.is_conclusion(line):
                    rows_of_proof = [ProofRow(**row.model_dump()) for row in line.proof]
                    _refuse_faults(parsed, checks.check_proof(line, rows_of_proof))
                    proofs.append((new_id, line.proof))
            else:
                faults = checks.check_edge(self._old_agent, line, quotes, existing_ends)
                _refuse_faults(parsed, faults)
                ends = imported[line.source_id][0], imported[line.target_id][0]
                new_id = ids.edge_id(self._agent_id, line.type, *ends)
                new_ids = {"id": new_id, "source_id": ends[0], "target_id": ends[1]}
            new_evidence = [
                self._evidence_row(row, parsed.kind, new_id, imported[row.source_id][0])
                for row in line.evidence
            ]
            evidence += new_evidence
            new_evidence_ids = {
                old.id: new["id"] for old, new in zip(line.evidence, new_evidence, strict=True)
            }
            # The properties of the line follow from them already.
            refusals += [
                {
                    **refusal.model_dump(),
                    "evidence_id": new_evidence_ids[refusal.evidence_id],
                    "agent_id": self._agent_id,
                    "applied_at": refusal.created_at,
                }
                for refusal in line.refusals
            ]
            rows.append(self._element_row(line, new_ids, new_evidence, imported))
            pairs += [(old_id, new_id, False) for old_id in (line.id, *line.earlier_ids)]
        table = "graph_nodes" if batch[0].kind == "node" else "graph_edges"
        tables = [
            (table, rows),
            ("graph_names", names),
            ("evidence", evidence),
            ("entailment_verdicts", refusals),
        ]
        return PreparedRows(batch[0].kind, tables, pairs, doubts, positions, proofs)

    def _new_node_id(self, line: NodeLine) -> UUID:
        """Derived from type and name, unless the old id derives from an earlier spelling."""
        if line.id == ids.node_id(self._old_agent, line.type, line.name):
            return ids.node_id(self._agent_id, line.type, line.name)
        return ids.imported_id(self._agent_id, line.id)

    def _evidence_row(
        self, row: EvidenceRow, kind: str, element_id: UUID, source_id: UUID
    ) -> dict[str, Any]:
        new_id = ids.evidence_id(
            element_id, source_id, row.first_byte, row.end_byte, row.content_key
        )
        new_row = row.model_copy(
            update={"id": new_id, "element_id": element_id, "source_id": source_id}
        )
        return {
            **new_row.model_dump(exclude={"element_id"}),
            "agent_id": self._agent_id,
            f"{kind}_id": element_id,
            "seal": new_row.sealed(self._agent_id),
        }

    def _element_row(
        self,
        line: NodeLine | EdgeLine,
        new_ids: Mapping[str, UUID],
        new_evidence: Rows,
        imported: ImportedIds,
    ) -> dict[str, Any]:
        new_line = line.model_copy(update=new_ids)
        evidence_ids = [row["id"] for row in new_evidence]
        is_unsupported = bool(line.evidence) and all(
            imported[row.source_id][1] for row in line.evidence
        )
        return {
            **new_line.model_dump(exclude=_EXTRA_FIELDS),
            "agent_id": self._agent_id,
            # An element without a seal gets none.
            "seal": line.seal and new_line.sealed(self._agent_id, evidence_ids),
            # An element that rests only on retracted sources was flagged at its last update.
            "unsupported_since": line.updated_at if is_unsupported else None,
        }


def _refuse_faults(parsed: ParsedLine, faults: Faults) -> None:
    """Raises BadFileError for every fault except a missing proof."""
    for fault in faults:
        if fault.kind is not FaultKind.UNPROVEN:
            raise BadFileError(
                f"line {parsed.number}: {fault.description}: this graph was changed outside Vigil; "
                "run `vigil verify --all` where it was exported for details"
            )


def remap_citations(value: Any, new_ids: Mapping[UUID, UUID]) -> Any:
    """Replace the ids in the citations of all texts in `value`; unknown ids stay."""

    def new_citation(citation: Citation) -> str | None:
        new_id = new_ids.get(citation.id)
        return None if new_id is None else str(Citation(citation.kind, new_id))

    match value:
        case str():
            return replace_citations(value, new_citation)
        case list():
            return [remap_citations(item, new_ids) for item in value]
        case dict():
            return {key: remap_citations(item, new_ids) for key, item in value.items()}
        case _:
            return value
