"""Reads of `shared.graph.context` that services make as a part of a larger round trip."""

from collections.abc import Sequence
from uuid import UUID

from shared.database.statements import Batch
from shared.database.transaction import Transaction
from shared.graph import context
from shared.graph.scope import GraphScope


async def describe_nodes(session: Transaction, scope: GraphScope, ids: Sequence[UUID]) -> str:
    batch = Batch()
    describe = context.prepare_nodes(batch, scope, ids)
    await batch.execute(session)
    return await describe(session, [])


async def describe_analyses(session: Transaction, scope: GraphScope, ids: Sequence[UUID]) -> str:
    return await context.analyses_query(scope, ids).execute(session)


async def resolve_references(
    session: Transaction, scope: GraphScope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    batch = Batch()
    resolve = context.prepare_references(batch, scope, [references])
    await batch.execute(session)
    [resolved] = await resolve(session)
    return resolved
