"""A graph as JSON Lines, which `vigil import` reads back. See `lines` for what stands where."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from shared.graph.proof.rows import NodeRow
from shared.graph.transfer.content import Content, SourceTold, ThingTold, prompts_of
from shared.graph.transfer.lines import (
    END,
    AgentLine,
    Counts,
    DoubtLine,
    EdgeLine,
    EdgeTypeLine,
    End,
    Head,
    NodeLine,
    NodeTypeLine,
    SourceLine,
    line,
)
from shared.graph.types import EdgeType, NodeType


async def written(content: Content) -> AsyncIterator[bytes]:
    """Line by line."""
    told = hashlib.sha256()
    counts = Counter[str]()
    async for counted, text in _lines(content):
        told.update(text)
        counts.update(counted)
        yield text
    end = End(counts=Counts(**counts), sha256=told.hexdigest())
    yield line(END, end)


async def _lines(content: Content) -> AsyncIterator[tuple[dict[str, int], bytes]]:
    """Each with what it counts as."""
    yield {}, (await _head(content)).model_dump_json().encode() + b"\n"
    types = await content.types()
    for node_type in types.nodes:
        yield {"node_types": 1}, line("node_type", NodeTypeLine(**_type(node_type)))
    for edge_type in types.edges:
        yield {"edge_types": 1}, line("edge_type", EdgeTypeLine(**_type(edge_type)))
    async for source in content.sources():
        yield {"sources": 1}, line("source", _source(source))
    async for node in content.nodes():
        yield {"nodes": 1, "evidence": len(node.evidence)}, line("node", _thing(node))
    async for edge in content.edges():
        yield {"edges": 1, "evidence": len(edge.evidence)}, line("edge", _thing(edge))


async def _head(content: Content) -> Head:
    agent = await content.agent()
    return Head(
        exported_at=datetime.now(UTC),
        agent=AgentLine(
            id=agent.id,
            name=agent.name,
            mission=agent.mission,
            interval_seconds=agent.interval_seconds,
            models=agent.models,
            prompts=prompts_of(agent),
        ),
    )


def _type(known: NodeType | EdgeType) -> dict[str, Any]:
    return asdict(known)


def _source(told: SourceTold) -> SourceLine:
    return SourceLine.model_construct(**dict(told.row), text=told.text)


def _thing(told: ThingTold) -> NodeLine | EdgeLine:
    besides: dict[str, Any] = {
        "evidence": [each.row for each in told.evidence],
        "earlier_ids": told.earlier_ids,
    }
    if isinstance(told.row, NodeRow):
        besides["names"] = dict(told.names)
        besides["doubts"] = tuple(DoubtLine(**asdict(each)) for each in told.doubts)
        return NodeLine.model_construct(**dict(told.row), **besides)
    return EdgeLine.model_construct(**dict(told.row), **besides)
