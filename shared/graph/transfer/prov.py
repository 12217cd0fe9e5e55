"""Export of a graph's provenance as W3C PROV-O in JSON-LD: one document, written in chunks.

Pages, quotes, nodes, edges and conclusions are entities; steps are activities; the Vigil agent is the agent.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.tables import Agent
from shared.graph.provenance.integrity import EdgeRow, NodeRow
from shared.graph.transfer.exporter import (
    ExportedElement,
    ExportedSource,
    ExportedStep,
    GraphContent,
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


async def export_prov(content: GraphContent) -> AsyncIterator[bytes]:
    """Yield the document in chunks of one entity or activity."""
    agent = await content.agent()
    yield b'{"@context":%s,"@graph":[\n' % _json(CONTEXT) + _json(_agent(agent))
    async for description in _describe_graph(content, agent):
        yield b",\n" + _json(description)
    yield b"\n]}\n"


async def _describe_graph(content: GraphContent, agent: Agent) -> AsyncIterator[Description]:
    async for step in content.steps():
        yield _step(step, agent)
    async for source in content.sources():
        yield _source(source)
    async for node in content.nodes():
        for description in _with_evidence(node, agent):
            yield description
    async for edge in content.edges():
        for description in _with_evidence(edge, agent):
            yield description


def _agent(agent: Agent) -> Description:
    kinds = ["prov:Agent", "prov:SoftwareAgent"]
    return {"@id": _urn(agent.id), "@type": kinds, "label": agent.name}


def _step(step: ExportedStep, agent: Agent) -> Description:
    return _without_none(
        {
            "@id": _urn(step.id),
            "@type": ["prov:Activity", f"vigil:{step.kind}"],
            "startedAtTime": _moment(step.started_at),
            "endedAtTime": _moment(step.ended_at),
            "wasAssociatedWith": _urn(agent.id),
        }
    )


def _source(source: ExportedSource) -> Description:
    row = source.row
    return _without_none(
        {
            **_entity(row.id, "source", row.fetched_at, source.step_id),
            "label": row.title,
            "atLocation": row.url,
            "published": _moment(row.published),
            "invalidatedAtTime": _moment(row.retracted_at),
            "sha256": row.sha256.hex(),
        }
    )


def _with_evidence(element: ExportedElement, agent: Agent) -> Iterator[Description]:
    for quoted in element.evidence:
        yield _evidence(quoted, element.steps[quoted.row.id])
    row = element.row
    kind = "edge" if isinstance(row, EdgeRow) else link_of(row.type)
    entity = {
        **_entity(row.id, kind, row.created_at, element.step_id),
        "type": row.type,
        "properties": row.properties,
        "wasAttributedTo": _urn(agent.id),
        "wasDerivedFrom": _urns(_rests_on(element)),
    }
    if isinstance(row, NodeRow):
        yield _without_none(entity | {"label": row.name})
    else:
        yield _without_none(entity | {"from": _urn(row.source_id), "to": _urn(row.target_id)})


def _rests_on(element: ExportedElement) -> Iterable[UUID]:
    row = element.row
    if isinstance(row, NodeRow) and is_conclusion(row):
        return cited_by(row).ids()
    return [quoted.row.id for quoted in element.evidence]


def _evidence(quoted: QuotedEvidence, step_id: UUID | None) -> Description:
    row = quoted.row
    return _without_none(
        {
            **_entity(row.id, "evidence", row.learned_at, step_id),
            "value": quoted.quote.decode(errors="replace"),
            "wasQuotedFrom": _urn(row.source_id),
            "firstByte": row.first_byte,
            "endByte": row.end_byte,
            "claims": row.claims,
            "asOf": _moment(row.as_of),
            "validFrom": _moment(row.valid_from),
            "validTo": _moment(row.valid_to),
        }
    )


def _entity(entity_id: UUID, kind: str, created_at: datetime, step_id: UUID | None) -> Description:
    return {
        "@id": _urn(entity_id),
        "@type": ["prov:Entity", f"vigil:{kind}"],
        "generatedAtTime": _moment(created_at),
        "wasGeneratedBy": None if step_id is None else _urn(step_id),
    }


def _urn(entity_id: UUID) -> str:
    return f"urn:uuid:{entity_id}"


def _urns(entity_ids: Iterable[UUID]) -> list[str] | None:
    return [_urn(entity_id) for entity_id in entity_ids] or None


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _without_none(description: Description) -> Description:
    return {name: value for name, value in description.items() if value is not None}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
