"""The names by which pages may call a node, and whether quotes are about it."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from shared.database.statements import CompiledStatement, Executor, InTransaction, uuid_array
from shared.graph.grounding.names import find_mentions
from shared.graph.provenance.evidence import UngroundedError, VerifiedQuote, ground_quotes
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.tools import ToolRefusalError

_NAMES: Final = CompiledStatement(f"""
    select node_id, name from graph_names
    where agent_id = {OWNED_AGENT_ID_SQL} and node_id = any(cast(:nodes as uuid[]))
    """)

_MAX_SHOWN_CHARS: Final = 100

End = tuple[UUID, list[str], bool]
"""A node, names that are known of it, and whether it is stored, and may have more."""


async def ground(
    session: InTransaction, scope: GraphScope, quotes: Sequence[VerifiedQuote], ends: Sequence[End]
) -> list[VerifiedQuote]:
    """`ground_quotes` for a node, or for the two ends of an edge. Looks up more names only if those given do not do."""
    is_edge = len(ends) > 1
    try:
        return ground_quotes(quotes, [names for _, names, _ in ends], is_edge=is_edge)
    except UngroundedError:
        stored = [node_id for node_id, _, is_stored in ends if is_stored]
        if not stored:
            raise
        more = await _load_names(session, scope, stored)
        if not any(more.values()):
            raise
        return ground_quotes(
            quotes,
            [[*names, *more.get(node_id, ())] for node_id, names, _ in ends],
            is_edge=is_edge,
        )


def refuse_unquoted_aliases(
    quotes: Sequence[VerifiedQuote], aliases: Iterable[str], known: Sequence[str]
) -> None:
    """Raises ToolRefusalError for an alias that neither the quotes nor their pages' titles and headings have.

    `known` are names of the node, whose initials need no quote.
    """
    texts = [text for each in quotes for text in (each.passage.quote, *each.passage.surroundings)]
    initials = {_initials(name) for name in known}
    for alias in aliases:
        is_quoted = any(find_mentions(alias, text) for text in texts)
        if not is_quoted and alias not in initials:
            raise ToolRefusalError(
                f"aliases: {alias[:_MAX_SHOWN_CHARS]!r} is not in the quotes; cite a sentence that has it, or leave it out."
            )


def _initials(name: str) -> str:
    return "".join(word[0] for word in name.split() if word[0].isupper())


async def _load_names(
    session: Executor, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, list[str]]:
    names: dict[UUID, list[str]] = {}
    params = {**scope.sql_params, "nodes": uuid_array(node_ids)}
    for node_id, name in await _NAMES.rows(session, params):
        names.setdefault(node_id, []).append(name)
    return names
