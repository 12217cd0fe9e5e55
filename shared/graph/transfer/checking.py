"""Lines of a file, checked as they were and made rows of the new agent: decided without a database."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from shared.graph import names
from shared.graph.citations import Kind
from shared.graph.proof import seals
from shared.graph.proof.rows import EvidenceRow, ThingRow
from shared.graph.scope import Scope
from shared.graph.transfer import anew
from shared.graph.transfer.lines import DoubtLine, EdgeLine, NodeLine, SourceLine
from shared.graph.transfer.reading import BadFileError, Read
from shared.graph.verify import checks
from shared.graph.verify.checks import Spanned
from shared.graph.verify.faults import Broken, Fault
from shared.store.tables import Evidence, GraphEdge, GraphName, GraphNode, Source

Rows = list[dict[str, Any]]
T = TypeVar("T", SourceLine, NodeLine, EdgeLine)

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
    ends: anew.NewIds = field(default_factory=dict)


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
            _refuse(number, checks.of_source(self._old_agent, line, seals.sha256(line.text)))
            moved = anew.source(self._agent_id, line)
            rows.append(self._owned(moved.model_dump()))
            pairs.append((line.id, moved.id, line.retracted_at is not None))
        return Ready("source", [(Source.__tablename__, rows)], pairs)

    def _nodes(self, batch: Sequence[Read], known: Known) -> Ready:
        rows, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID, bool]]()
        called, doubted = Rows(), list[tuple[UUID, DoubtLine]]()
        for (number, line), quoted in zip(_of_kind(batch, NodeLine), known.quoted, strict=True):
            self._refuse_evidence(number, quoted)
            _refuse(number, checks.of_node(self._old_agent, line, quoted))
            new_id = anew.node_id(self._old_agent, self._agent_id, line)
            moved = self._moved(line.evidence, new_id, known.sources)
            row = anew.node(self._agent_id, line, new_id, [each.id for each in moved])
            rows.append(self._thing(row, line, known.sources))
            called += [
                names.row(self._scope, (line.type, key), name, new_id)
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
            row = anew.edge(self._agent_id, line, *ends)
            moved = self._moved(line.evidence, row.id, known.sources)
            row = anew.sealed_edge(self._agent_id, row, [each.id for each in moved])
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
            anew.evidence(self._agent_id, each, thing_id, sources[each.source_id][0])
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


def _of_kind(batch: Sequence[Read], kind: type[T]) -> Iterator[tuple[int, T]]:
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
