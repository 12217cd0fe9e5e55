"""What the first write of a transaction asks for: its type's rules, which take its turn, and the pages that it quotes.

Either can be asked for by itself, and is where the other is known already. Both at once are a statement less, which is as
much as a tenth of what a write takes.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import rules, sources
from shared.graph.rules import Of
from shared.graph.scope import Scope
from shared.graph.spelled import spelled


async def look(
    session: AsyncSession, scope: Scope, of: Of, type_name: str, urls: Iterable[str]
) -> None:
    """So that `rules` and `sources` need not ask for these; what is not there, they ask for again."""
    new = sources.unknown(session, scope, urls)
    if not new or rules.are_known(session, scope, of, type_name):
        return
    statement, given = spelled(_BOTH[of], "url", sources.spellings(new))
    rows = await statement.tuples(session, {**scope.bound, "called": type_name, **given})
    width = len(rules.COLUMNS)
    for row in rows:
        if row[0] is not None:
            rules.keep(session, scope, of, type_name, row[:width])
    sources.keep(session, scope, new, [row[width:] for row in rows if row[0] is None])


# On nothing: the row of the rules comes once, however many pages there are.
_BOTH: Final = {
    of: f"select {', '.join(rules.COLUMNS)}, page.* from ({sql}) rules full join ({sources.AT_SQL}) page on false"
    for of, sql in rules.SQL.items()
}
