"""A graph's provenance as W3C PROV-O in JSON-LD: one document, written piece by piece.

Pages, quotes, nodes, edges and conclusions are entities; steps are activities; Vigil's agent is the agent.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.tables import Agent
from shared.graph.provenance.integrity import EdgeRow, NodeRow
from shared.graph.transfer.exporter import Content, SourceTold, StepTold, ThingTold
from shared.graph.verification.checks import Spanned, cited_by, is_conclusion, link_of

_MOMENT: Final = {"@type": "xsd:dateTime"}
_THING: Final = {"@type": "@id"}
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
                _THING,
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
    "from": {"@id": "vigil:from", **_THING},
    "to": {"@id": "vigil:to", **_THING},
}
"""Terms of PROV under their own names, and of Vigil where PROV has none."""

Told = dict[str, Any]


async def written(content: Content) -> AsyncIterator[bytes]:
    """In pieces of one entity or activity."""
    agent = await content.agent()
    yield b'{"@context":%s,"@graph":[\n' % _json(CONTEXT) + _json(_agent(agent))
    async for each in _described(content, agent):
        yield b",\n" + _json(each)
    yield b"\n]}\n"


async def _described(content: Content, agent: Agent) -> AsyncIterator[Told]:
    async for step in content.steps():
        yield _step(step, agent)
    async for source in content.sources():
        yield _source(source)
    async for node in content.nodes():
        for each in _with_evidence(node, agent):
            yield each
    async for edge in content.edges():
        for each in _with_evidence(edge, agent):
            yield each


def _agent(agent: Agent) -> Told:
    kinds = ["prov:Agent", "prov:SoftwareAgent"]
    return {"@id": _urn(agent.id), "@type": kinds, "label": agent.name}


def _step(step: StepTold, agent: Agent) -> Told:
    return _without_none(
        {
            "@id": _urn(step.id),
            "@type": ["prov:Activity", f"vigil:{step.kind}"],
            "startedAtTime": _moment(step.started_at),
            "endedAtTime": _moment(step.ended_at),
            "wasAssociatedWith": _urn(agent.id),
        }
    )


def _source(told: SourceTold) -> Told:
    row = told.row
    return _without_none(
        {
            **_entity(row.id, "source", row.fetched_at, told.step_id),
            "label": row.title,
            "atLocation": row.url,
            "published": _moment(row.published),
            "invalidatedAtTime": _moment(row.retracted_at),
            "sha256": row.sha256.hex(),
        }
    )


def _with_evidence(told: ThingTold, agent: Agent) -> Iterator[Told]:
    for each in told.evidence:
        yield _evidence(each, told.steps[each.row.id])
    row = told.row
    kind = "edge" if isinstance(row, EdgeRow) else link_of(row.type)
    entity = {
        **_entity(row.id, kind, row.created_at, told.step_id),
        "type": row.type,
        "properties": row.properties,
        "wasAttributedTo": _urn(agent.id),
        "wasDerivedFrom": _urns(_rests_on(told)),
    }
    if isinstance(row, NodeRow):
        yield _without_none(entity | {"label": row.name})
    else:
        yield _without_none(entity | {"from": _urn(row.source_id), "to": _urn(row.target_id)})


def _rests_on(told: ThingTold) -> Iterable[UUID]:
    row = told.row
    if isinstance(row, NodeRow) and is_conclusion(row):
        return cited_by(row).ids()
    return [each.row.id for each in told.evidence]


def _evidence(spanned: Spanned, step_id: UUID | None) -> Told:
    row = spanned.row
    return _without_none(
        {
            **_entity(row.id, "evidence", row.learned_at, step_id),
            "value": spanned.quote.decode(errors="replace"),
            "wasQuotedFrom": _urn(row.source_id),
            "firstByte": row.first_byte,
            "endByte": row.end_byte,
            "claims": row.claims,
            "asOf": _moment(row.as_of),
            "validFrom": _moment(row.valid_from),
            "validTo": _moment(row.valid_to),
        }
    )


def _entity(entity_id: UUID, kind: str, made_at: datetime, step_id: UUID | None) -> Told:
    return {
        "@id": _urn(entity_id),
        "@type": ["prov:Entity", f"vigil:{kind}"],
        "generatedAtTime": _moment(made_at),
        "wasGeneratedBy": None if step_id is None else _urn(step_id),
    }


def _urn(known: UUID) -> str:
    return f"urn:uuid:{known}"


def _urns(known: Iterable[UUID]) -> list[str] | None:
    return [_urn(each) for each in known] or None


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _without_none(told: Told) -> Told:
    return {name: value for name, value in told.items() if value is not None}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
