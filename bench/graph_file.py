"""Generates an export file of a graph of any size."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.enums import ANALYSIS_TYPE
from shared.graph.grounding.evidence import RULES
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import EvidenceRow, SourceRow
from shared.graph.provenance.page_reading import read_page
from shared.graph.transfer.exporter import (
    END,
    AgentLine,
    Counts,
    EdgeLine,
    EdgeTypeLine,
    End,
    Head,
    NodeLine,
    NodeTypeLine,
    SourceLine,
    format_line,
)
from shared.graph.types import SYSTEM_CREATOR

AGENT: Final = "Bench"
_TARGET_STEPS: Final = (7, 31, 97)
"""How far the edges of a node lead, by number."""
EDGES_PER_NODE: Final = len(_TARGET_STEPS)
NODES_PER_PAGE: Final = 10
NODES_PER_ANALYSIS: Final = 1000

_AGENT_ID: Final = UUID("00000000-0000-4000-8000-000000000001")
_TIME: Final = datetime(2026, 3, 1, tzinfo=UTC)
_TIMES: Final = {"created_at": _TIME, "updated_at": _TIME}
_TYPE_FIELDS: Final = {
    "description": "made up",
    "created_by": SYSTEM_CREATOR,
    "created_at": _TIME,
}
_NODE_TYPE_FIELDS: Final[dict[str, Any]] = {
    "properties_schema": {"type": "object"},
    "example_properties": {},
}


class GraphSize(NamedTuple):
    nodes: int
    edges_per_node: int = EDGES_PER_NODE


def write_graph_file(file: BinaryIO, nodes: int, edges_per_node: int = EDGES_PER_NODE) -> None:
    """Write a graph: 3 edges per node, all with evidence, 10 nodes per page, one analysis per 1,000 nodes."""
    size = GraphSize(nodes, edges_per_node)
    digest = hashlib.sha256()
    counts: dict[str, int] = {}
    for kind, text in _lines(size):
        digest.update(text)
        file.write(text)
        counts[f"{kind}s"] = counts.get(f"{kind}s", 0) + 1
    counts.pop("heads")
    counts["evidence"] = counts["edges"] + nodes
    file.write(format_line(END, End(counts=Counts(**counts), sha256=digest.hexdigest())))


def _lines(size: GraphSize) -> Iterator[tuple[str, bytes]]:
    agent = AgentLine(
        id=_AGENT_ID,
        name=AGENT,
        mission="Measure a large graph.",
        interval_seconds=300,
        models={},
        prompts={},
    )
    yield "head", Head(exported_at=_TIME, agent=agent).model_dump_json().encode() + b"\n"
    for name in ("Thing", ANALYSIS_TYPE):
        yield (
            "node_type",
            format_line("node_type", NodeTypeLine(name=name, **_TYPE_FIELDS, **_NODE_TYPE_FIELDS)),
        )
    edge_type = EdgeTypeLine(
        name="leads_to", source_types=[], target_types=[], **_TYPE_FIELDS, **_NODE_TYPE_FIELDS
    )
    yield "edge_type", format_line("edge_type", edge_type)
    for page in range(0, size.nodes, NODES_PER_PAGE):
        yield "source", format_line("source", _page(page, size))
    for number in range(size.nodes):
        yield "node", format_line("node", _node(number, size))
    for number in range(0, size.nodes, NODES_PER_ANALYSIS):
        yield "node", format_line("node", _analysis(number, size))
    for number in range(size.nodes):
        for target in _targets(number, size):
            yield "edge", format_line("edge", _edge(number, target, size))


def _name(number: int) -> str:
    return f"Thing {number}"


def _weight_sentence(number: int) -> str:
    return f"{_name(number)} weighs {number * 7919 % 100_003} kg."


def _edge_sentence(number: int, target: int) -> str:
    return f"{_name(number)} leads to {_name(target)}."


def _targets(number: int, size: GraphSize) -> list[int]:
    targets = ((number * step + step) % size.nodes for step in _TARGET_STEPS[: size.edges_per_node])
    return [target for target in dict.fromkeys(targets) if target != number]


@lru_cache(maxsize=8)  # nodes of one page follow each other
def _page(first: int, size: GraphSize) -> SourceLine:
    sentences: list[str] = []
    for number in range(first, min(first + NODES_PER_PAGE, size.nodes)):
        sentences += [
            _weight_sentence(number),
            *(_edge_sentence(number, target) for target in _targets(number, size)),
        ]
    text = "\n".join(sentences)
    url, sha256 = f"https://bench.example/{first}", integrity.sha256(text)
    row = SourceRow(
        id=ids.source_id(_AGENT_ID, url, sha256),
        url=url,
        title=f"Page {first}",
        published=None,
        fetched_at=_TIME,
        sha256=sha256,
        reading=read_page(text).as_json(),
        seal=b"",
        retracted_at=None,
        retraction_reason=None,
    )
    return SourceLine(**row.model_dump() | {"seal": row.sealed(_AGENT_ID)}, text=text)


def _evidence(
    element_id: UUID, number: int, size: GraphSize, quote: str, claims: Any
) -> EvidenceRow:
    page = _page(number // NODES_PER_PAGE * NODES_PER_PAGE, size)
    start = page.text.index(quote)
    end = start + len(quote)
    content = integrity.canonical_json([claims, None, None])
    row = EvidenceRow(
        id=ids.evidence_id(element_id, page.id, start, end, content),
        element_id=element_id,
        source_id=page.id,
        first_byte=start,
        end_byte=end,
        quote_sha256=integrity.sha256(quote),
        claims=claims,
        valid_from=None,
        valid_to=None,
        as_of=_TIME,
        learned_at=_TIME,
        rules=RULES,
        seal=b"",
    )
    return row.model_copy(update={"seal": row.sealed(_AGENT_ID)})


def _node_id(number: int) -> UUID:
    return ids.node_id(_AGENT_ID, "Thing", _name(number))


def _node(number: int, size: GraphSize) -> NodeLine:
    claims = {"weight_kg": number * 7919 % 100_003, "summary": f"It is the thing {number}."}
    evidence = _evidence(_node_id(number), number, size, _weight_sentence(number), claims)
    row = NodeLine(
        id=_node_id(number),
        type="Thing",
        name=_name(number),
        properties=claims,
        seal=None,
        evidence=[evidence],
        **_TIMES,
    )
    return row.model_copy(update={"seal": row.sealed(_AGENT_ID, [evidence.id])})


def _edge_id(number: int, target: int) -> UUID:
    return ids.edge_id(_AGENT_ID, "leads_to", _node_id(number), _node_id(target))


def _edge(number: int, target: int, size: GraphSize) -> EdgeLine:
    edge_id = _edge_id(number, target)
    evidence = _evidence(edge_id, number, size, _edge_sentence(number, target), {})
    row = EdgeLine(
        id=edge_id,
        type="leads_to",
        source_id=_node_id(number),
        target_id=_node_id(target),
        properties={},
        seal=None,
        evidence=[evidence],
        **_TIMES,
    )
    return row.model_copy(update={"seal": row.sealed(_AGENT_ID, [evidence.id])})


def _analysis(number: int, size: GraphSize) -> NodeLine:
    name = f"About thing {number}"
    target = _targets(number, size)[0]
    cited = f"[node:{_node_id(number)}] [edge:{_edge_id(number, target)}]"
    row = NodeLine(
        id=ids.node_id(_AGENT_ID, ANALYSIS_TYPE, name),
        type=ANALYSIS_TYPE,
        name=name,
        properties={
            "type": "observation",
            "summary": "It leads on.",
            "content": f"It leads on {cited}.",
            "generated_at": "2026-03-01T00:00:00Z",
        },
        seal=None,
        evidence=[],
        **_TIMES,
    )
    return row.model_copy(update={"seal": row.sealed(_AGENT_ID, [])})
