"""Writers of the same nodes, edges and names at once."""

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from shared.database.locks import shared_write_lock
from shared.database.transaction import Transaction
from shared.errors import RetrySoonError
from shared.graph import upsert
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest, ResolvedNode
from shared.graph.scope import GraphScope

P = ParamSpec("P")
T = TypeVar("T")


def retried(write: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Repeats a transaction, as a step is retried, if another one has written the same rows meanwhile.

    Any other error is raised, such as that of a deadlock.
    """

    @wraps(write)
    async def until_written(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return await write(*args, **kwargs)
            except RetrySoonError as error:
                if "written by another transaction in the meantime" not in str(error):
                    raise

    return until_written


async def resolve_and_reserve(
    session: Transaction, scope: GraphScope, requests: Sequence[NameRequest]
) -> list[ResolvedNode]:
    """The node of each request. Reserves their names, in the order of all transactions, until this one ends.

    No two requests have a name in common.
    """
    await shared_write_lock(session, scope.agent_id)
    resolutions = [await aliases.resolve_name(session, scope, request) for request in requests]
    async with upsert.buffering(session, scope) as buffer:
        for resolution in resolutions:
            buffer.add_names(resolution.missing_rows, resolution.node.name)
    return [resolution.node for resolution in resolutions]
