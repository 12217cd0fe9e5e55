"""A graph as a file, and back."""

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
from tests.support.graph.proven import Proven


async def exported(
    proven: Proven, written: Callable[[GraphContent], Any] = exporter.export_json_lines
) -> bytes:
    async with proven.world.database.snapshot() as session:
        return b"".join([piece async for piece in written(GraphContent(session, proven.scope))])


async def imported(proven: Proven, file: bytes, name: str | None = None) -> GraphScope:
    owner_id = proven.scope.owner_id
    async with proven.world.database.transaction() as session:
        agent = await import_graph(session, owner_id, ExportedGraph(BytesIO(file)), name)
        return GraphScope(owner_id, agent.id)


def resealed(lines: list[bytes]) -> bytes:
    """With a last line as if it had been written so."""
    end = json.loads(lines[-1])
    told = [json.loads(line) for line in lines[1:-1]]
    kinds = Counter(f"{kind}s" for each in told for kind in each)
    found = [value.get("evidence", []) for each in told for value in each.values()]
    counts = {name: kinds[name] for name in end["end"]["counts"]}
    end["end"]["counts"] = counts | {"evidence": sum(map(len, found))}
    end["end"]["sha256"] = sha256(b"".join(lines[:-1])).hex()
    return b"".join([*lines[:-1], json.dumps(end, separators=(",", ":")).encode() + b"\n"])
