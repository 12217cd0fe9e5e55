"""A graph of any size as `vigil export` would write it, made up as it is written."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, Final
from uuid import UUID

from shared.database import ids
from shared.enums import ANALYSIS_TYPE
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import EvidenceRow, SourceRow
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
    line,
)

AGENT: Final = "Bench"
EDGES_OF_A_NODE: Final = 3
NODES_ON_A_PAGE: Final = 10
NODES_TO_AN_ANALYSIS: Final = 1000

_AGENT_ID: Final = UUID("00000000-0000-4000-8000-000000000001")
_WHEN: Final = datetime(2026, 3, 1, tzinfo=UTC)
_TIMES: Final = {"created_at": _WHEN, "updated_at": _WHEN}
_KIND: Final = {"description": "made up", "created_by": "bench", "created_at": _WHEN}
_FREE: Final[dict[str, Any]] = {"properties_schema": {"type": "object"}, "example_properties": {}}


def write(file: BinaryIO, nodes: int) -> None:
    """So many nodes, three edges each, every one of them with evidence; a page for ten nodes, an analysis for a thousand."""
    told = hashlib.sha256()
    counts: dict[str, int] = {}
    for kind, text in _lines(nodes):
        told.update(text)
        file.write(text)
        counts[f"{kind}s"] = counts.get(f"{kind}s", 0) + 1
    counts.pop("heads")
    counts["evidence"] = counts["edges"] + nodes
    file.write(line(END, End(counts=Counts(**counts), sha256=told.hexdigest())))


def _lines(nodes: int) -> Iterator[tuple[str, bytes]]:
    agent = AgentLine(
        id=_AGENT_ID, name=AGENT, mission="Be large", interval_seconds=300, models={}, prompts={}
    )
    yield "head", Head(exported_at=_WHEN, agent=agent).model_dump_json().encode() + b"\n"
    for name in ("Thing", ANALYSIS_TYPE):
        yield "node_type", line("node_type", NodeTypeLine(name=name, **_KIND, **_FREE))
    edge_type = EdgeTypeLine(name="leads_to", source_types=[], target_types=[], **_KIND, **_FREE)
    yield "edge_type", line("edge_type", edge_type)
    for page in range(0, nodes, NODES_ON_A_PAGE):
        yield "source", line("source", _page(page, nodes))
    for number in range(nodes):
        yield "node", line("node", _node(number, nodes))
    for number in range(0, nodes, NODES_TO_AN_ANALYSIS):
        yield "node", line("node", _analysis(number, nodes))
    for number in range(nodes):
        for target in _targets(number, nodes):
            yield "edge", line("edge", _edge(number, target, nodes))


def _name(number: int) -> str:
    return f"Thing {number}"


def _weighs(number: int) -> str:
    return f"{_name(number)} weighs {number * 7919 % 100_003} kg."


def _leads(number: int, target: int) -> str:
    return f"{_name(number)} leads to {_name(target)}."


def _targets(number: int, nodes: int) -> list[int]:
    found = ((number * step + step) % nodes for step in (7, 31, 97))
    return [target for target in dict.fromkeys(found) if target != number]


@lru_cache(maxsize=8)  # nodes that stand on one page come one after another
def _page(first: int, nodes: int) -> SourceLine:
    told: list[str] = []
    for number in range(first, min(first + NODES_ON_A_PAGE, nodes)):
        told += [_weighs(number), *(_leads(number, each) for each in _targets(number, nodes))]
    text = "\n".join(told)
    url, sha256 = f"https://bench.example/{first}", integrity.sha256(text)
    row = SourceRow(
        id=ids.source_id(_AGENT_ID, url, sha256),
        url=url,
        title=f"Page {first}",
        published=None,
        fetched_at=_WHEN,
        sha256=sha256,
        seal=b"",
        retracted_at=None,
        retracted_because=None,
    )
    return SourceLine(**row.model_dump() | {"seal": row.sealed(_AGENT_ID)}, text=text)


def _evidence(thing: UUID, number: int, nodes: int, quote: str, claims: Any) -> EvidenceRow:
    page = _page(number // NODES_ON_A_PAGE * NODES_ON_A_PAGE, nodes)
    first = page.text.index(quote)
    end = first + len(quote)
    says = integrity.canonical([claims, None, None])
    row = EvidenceRow(
        id=ids.evidence_id(thing, page.id, first, end, says),
        thing_id=thing,
        source_id=page.id,
        first_byte=first,
        end_byte=end,
        quote_sha256=integrity.sha256(quote),
        claims=claims,
        valid_from=None,
        valid_to=None,
        as_of=_WHEN,
        learned_at=_WHEN,
        seal=b"",
    )
    return row.model_copy(update={"seal": row.sealed(_AGENT_ID)})


def _node_id(number: int) -> UUID:
    return ids.node_id(_AGENT_ID, "Thing", _name(number))


def _node(number: int, nodes: int) -> NodeLine:
    claims = {"weight_kg": number * 7919 % 100_003, "summary": f"It is the thing {number}."}
    evidence = _evidence(_node_id(number), number, nodes, _weighs(number), claims)
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


def _edge(number: int, target: int, nodes: int) -> EdgeLine:
    edge_id = _edge_id(number, target)
    evidence = _evidence(edge_id, number, nodes, _leads(number, target), {})
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


def _analysis(number: int, nodes: int) -> NodeLine:
    name = f"About thing {number}"
    target = _targets(number, nodes)[0]
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
