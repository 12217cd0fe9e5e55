"""Reads of `shared.graph.context` that services make as a part of a larger round trip."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import RoundTrip
from shared.graph import context
from shared.graph.scope import GraphScope


async def describe_nodes(session: AsyncSession, scope: GraphScope, ids: Sequence[UUID]) -> str:
    trip = RoundTrip()
    describe = context.ask_nodes(trip, scope, ids)
    await trip.make(session)
    return await describe(session)


async def describe_analyses(session: AsyncSession, scope: GraphScope, ids: Sequence[UUID]) -> str:
    return await context.analyses_query(scope, ids).answer(session)


async def resolve_references(
    session: AsyncSession, scope: GraphScope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    [resolved] = await context.resolve_references(session, scope, [references])
    return resolved
