"""Export of a graph's provenance as W3C PROV-O in JSON-LD: one document, written in chunks.

Pages, quotes, nodes, edges and conclusions are entities; steps are activities; the Vigil agent is the agent.
"""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.graph.provenance.claims import known_date
from shared.graph.transfer.exporter import (
    EdgeLine,
    Exported,
    GraphContent,
    NodeLine,
    SourceLine,
)
from shared.graph.verification.checks import QuotedEvidence, cited_by, is_conclusion, link_of

_MOMENT: Final = {"@type": "xsd:dateTime"}
_REFERENCE: Final = {"@type": "@id"}
CONTEXT: Final = {
    "@version": 1.1,
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "vigil": "urn:vigil:terms:",
    **{
        name: {"@id": f"prov:{name}", **kind}
        for kind, names in (
            (_MOMENT, ("generatedAtTime", "invalidatedAtTime", "startedAtTime", "endedAtTime")),
            (
                _REFERENCE,
                (
                    "wasGeneratedBy",
                    "wasDerivedFrom",
                    "wasQuotedFrom",
                    "wasAttributedTo",
                    "wasAssociatedWith",
                    "atLocation",
                ),
            ),
        )
        for name in names
    },
    "value": "prov:value",
    "label": "rdfs:label",
    "claims": {"@id": "vigil:claims", "@type": "@json"},
    "properties": {"@id": "vigil:properties", "@type": "@json"},
    "published": {"@id": "vigil:published", **_MOMENT},
    "beside": "vigil:beside",
    "asOf": {"@id": "vigil:asOf", **_MOMENT},
    "validFrom": {"@id": "vigil:validFrom", **_MOMENT},
    "validTo": {"@id": "vigil:validTo", **_MOMENT},
    "firstByte": "vigil:firstByte",
    "endByte": "vigil:endByte",
    "sha256": "vigil:sha256",
    "type": "vigil:type",
    "from": {"@id": "vigil:from", **_REFERENCE},
    "to": {"@id": "vigil:to", **_REFERENCE},
}
"""PROV terms under their own names, and Vigil terms where PROV has none."""

Description = dict[str, Any]
"""Ids stand for their URN; what is None is left out."""


async def export_prov(content: GraphContent) -> AsyncIterator[bytes]:
    """Yield the document in chunks of one entity or activity."""
    agent = await content.agent()
    kinds = ["prov:Agent", "prov:SoftwareAgent"]
    description = {"@id": agent.id, "@type": kinds, "label": agent.name}
    yield b'{"@context":%s,"@graph":[\n' % _json(CONTEXT) + _json(description)
    async for description in _describe_graph(content, agent.id):
        present = {name: value for name, value in description.items() if value is not None}
        yield b",\n" + _json(present)
    yield b"\n]}\n"


async def _describe_graph(content: GraphContent, agent_id: UUID) -> AsyncIterator[Description]:
    async for step_id, kind, started_at, ended_at in content.steps():
        yield {
            "@id": step_id,
            "@type": ["prov:Activity", f"vigil:{kind}"],
            "startedAtTime": started_at,
            "endedAtTime": ended_at,
            "wasAssociatedWith": agent_id,
        }
    async for source in content.sources():
        yield _source(source)
    async for node in content.nodes():
        for quoted in node.evidence:
            yield _evidence(quoted)
        line = node.line
        rests_on = [row.id for row in line.evidence]
        yield {
            **_element(node, link_of(line.type), agent_id),
            "wasDerivedFrom": (cited_by(line).ids() if is_conclusion(line) else rests_on) or None,
            "label": line.name,
        }
    async for edge in content.edges():
        for quoted in edge.evidence:
            yield _evidence(quoted)
        yield {
            **_element(edge, "edge", agent_id),
            "wasDerivedFrom": [row.id for row in edge.line.evidence] or None,
            "from": edge.line.source_id,
            "to": edge.line.target_id,
        }


def _source(source: Exported[SourceLine]) -> Description:
    line = source.line
    return {
        **_entity(line.id, "source", line.fetched_at, source.step_id),
        "label": line.title,
        "atLocation": line.url,
        "published": line.published,
        "invalidatedAtTime": line.retracted_at,
        "sha256": line.sha256.hex(),
    }


def _element(
    element: Exported[NodeLine] | Exported[EdgeLine], kind: str, agent_id: UUID
) -> Description:
    line = element.line
    return {
        **_entity(line.id, kind, line.created_at, element.step_id),
        "type": line.type,
        "properties": line.properties,
        "beside": line.beside or None,
        "wasAttributedTo": agent_id,
    }


def _evidence(quoted: QuotedEvidence) -> Description:
    row = quoted.row
    return {
        **_entity(row.id, "evidence", row.learned_at, quoted.step_id),
        "value": quoted.quote.decode(errors="replace"),
        "wasQuotedFrom": row.source_id,
        "firstByte": row.first_byte,
        "endByte": row.end_byte,
        "claims": row.claims,
        "asOf": known_date(row.as_of),
        "validFrom": row.valid_from,
        "validTo": row.valid_to,
        "speaker": row.speaker,
    }


def _entity(entity_id: UUID, kind: str, created_at: datetime, step_id: UUID | None) -> Description:
    return {
        "@id": entity_id,
        "@type": ["prov:Entity", f"vigil:{kind}"],
        "generatedAtTime": created_at,
        "wasGeneratedBy": step_id,
    }


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)
    return text.encode()


def _text(value: UUID | datetime) -> str:
    return value.isoformat() if isinstance(value, datetime) else f"urn:uuid:{value}"
