"""Exports a graph to a file and imports it."""

import json
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any

from shared.graph.provenance.integrity import sha256
from shared.graph.scope import GraphScope
from shared.graph.transfer import exporter
from shared.graph.transfer.exporter import GraphContent
from shared.graph.transfer.file_reader import ExportedGraph
from shared.graph.transfer.importer import import_graph
from tests.support.graph.graph_with_evidence import EvidenceGraph


async def exported(
    evidence_graph: EvidenceGraph,
    export: Callable[[GraphContent], Any] = exporter.export_json_lines,
) -> bytes:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        return b"".join(
            [piece async for piece in export(GraphContent(session, evidence_graph.scope))]
        )


async def imported(
    evidence_graph: EvidenceGraph, file: bytes, name: str | None = None
) -> GraphScope:
    owner_id = evidence_graph.scope.owner_id
    async with evidence_graph.agent_graph.database.transaction() as session:
        agent = await import_graph(session, owner_id, ExportedGraph(BytesIO(file)), name)
        return GraphScope(owner_id, agent.id)


def reseal(lines: list[bytes]) -> bytes:
    """Join the lines, with counts and SHA-256 in the last line recomputed."""
    end = json.loads(lines[-1])
    rows = [json.loads(line) for line in lines[1:-1]]
    kinds = Counter(f"{kind}s" for row in rows for kind in row)
    evidence_lists = [value.get("evidence", []) for row in rows for value in row.values()]
    counts = {name: kinds[name] for name in end["end"]["counts"]}
    end["end"]["counts"] = counts | {"evidence": sum(map(len, evidence_lists))}
    end["end"]["sha256"] = sha256(b"".join(lines[:-1])).hex()
    return b"".join([*lines[:-1], json.dumps(end, separators=(",", ":")).encode() + b"\n"])
