"""A chain as people and programs are told of it."""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.proof.fold import standing
from shared.graph.proof.rows import EdgeRow, NodeRow, ThingRow
from shared.graph.scope import Scope
from shared.graph.verify.chain import not_holding
from shared.graph.verify.checks import Spanned, is_conclusion
from shared.graph.verify.faults import Link, link_of
from shared.graph.verify.load import SourceFound
from shared.graph.verify.walk import Walked, walk
from shared.store.reading.proof_shapes import (
    BreakView,
    ConclusionLink,
    EvidenceLink,
    SourceLink,
    ThingLink,
    VerificationView,
)
from shared.store.tables import Agent, GraphNode
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE


async def verification(
    session: AsyncSession, owner_id: UUID, conclusion_id: UUID
) -> VerificationView | None:
    """Of any of the owner's conclusions; None where there is none of that id.

    Give it a transaction of repeatable reads.
    """
    agent_id = await session.scalar(
        select(GraphNode.agent_id)
        .join(Agent, Agent.id == GraphNode.agent_id)
        .where(
            GraphNode.id == conclusion_id,
            GraphNode.type.in_((ANALYSIS_TYPE, ADVICE_TYPE)),
            Agent.owner_id == owner_id,
        )
    )
    if agent_id is None:
        return None
    walked = await walk(session, Scope(owner_id, agent_id), conclusion_id)
    return _Telling(walked).of(agent_id, conclusion_id)


class _Telling:
    def __init__(self, walked: Walked) -> None:
        self._walked = walked
        self._rests_on = walked.rests_on()
        self._broken = not_holding(self._rests_on, walked.faults)

    def of(self, agent_id: UUID, root: UUID) -> VerificationView:
        nodes = self._walked.nodes.values()
        things: list[ThingRow] = [row for row in nodes if not is_conclusion(row)]
        things += self._walked.edges.values()
        return VerificationView(
            id=root,
            agent_id=agent_id,
            holds=root not in self._broken,
            conclusions=[self._conclusion(row) for row in nodes if is_conclusion(row)],
            things=[self._thing(row) for row in things],
            evidence=[
                link for each in self._walked.evidence.values() for link in self._evidence(each)
            ],
            sources=[self._source(each) for each in self._walked.sources.values()],
        )

    def _conclusion(self, row: NodeRow) -> ConclusionLink:
        return ConclusionLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            link=link_of(row.type),
            name=row.name,
            summary=str(row.properties.get("summary", "")),
            rests_on=self._rests_on.get(row.id, []),
            doubts=self._walked.doubts.get(row.id, []),
        )

    def _thing(self, row: ThingRow) -> ThingLink:
        return ThingLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            link=Link.EDGE if isinstance(row, EdgeRow) else Link.NODE,
            type=row.type,
            name=self._name(row),
            properties=row.properties,
            rests_on=self._rests_on.get(row.id, []),
        )

    def _name(self, row: ThingRow) -> str:
        if isinstance(row, NodeRow):
            return row.name
        ends = (self._walked.nodes.get(end) for end in (row.source_id, row.target_id))
        return " → ".join(end.name if end else "?" for end in ends)

    def _evidence(self, of_thing: Iterable[Spanned]) -> list[EvidenceLink]:
        known = list(of_thing)
        held = standing(each.claim for each in known)
        by_id: dict[UUID, list[str]] = {}
        for name, claim in held.items():
            by_id.setdefault(claim.evidence_id, []).append(name)
        return [self._evidence_link(each, by_id.get(each.row.id, [])) for each in known]

    def _evidence_link(self, spanned: Spanned, stands: list[str]) -> EvidenceLink:
        row = spanned.row
        return EvidenceLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            thing_id=row.thing_id,
            source_id=row.source_id,
            quote=spanned.quote.decode(errors="replace"),
            first_byte=row.first_byte,
            end_byte=row.end_byte,
            claims=row.claims,
            stands=stands,
            valid_from=row.valid_from,
            valid_to=row.valid_to,
            as_of=row.as_of,
            learned_at=row.learned_at,
        )

    def _source(self, found: SourceFound) -> SourceLink:
        row = found.row
        return SourceLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            url=row.url,
            title=row.title,
            published=row.published,
            fetched_at=row.fetched_at,
            retracted_at=row.retracted_at,
        )

    def _holds(self, link: UUID) -> bool:
        return link not in self._broken

    def _breaks(self, link: UUID) -> list[BreakView]:
        faults = self._walked.faults.get(link, ())
        return [BreakView(broken=fault.broken, told=fault.told) for fault in faults]
