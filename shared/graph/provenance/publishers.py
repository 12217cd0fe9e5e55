"""Publishers of pages: nodes whose `site` is that of a page."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from shared.database.statements import CompiledStatement, json_text
from shared.database.transaction import Transaction
from shared.graph.grounding.passages import Publisher
from shared.graph.provenance.evidence import VerifiedQuote
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope

_SPELLINGS: Final = tuple(
    f"{start}{www}{{}}{end}"
    for start in ("", "https://", "http://")
    for www in ("", "www.")
    for end in ("", "/")
)
"""Forms in which a property of a node can give a site."""
_PUBLISHERS: Final = CompiledStatement(f"""
select sites.host, node.name, node.properties ->> 'country' as country
from jsonb_to_recordset(cast(:sites as jsonb)) as sites (host text, spelling text)
join graph_nodes as node on node.properties ->> 'site' = sites.spelling
where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL}
""")


async def with_publishers(
    transaction: Transaction, scope: GraphScope, quotes: Sequence[VerifiedQuote]
) -> list[VerifiedQuote]:
    """The quotes with the publishers of their pages, where the graph has exactly one for the site."""
    known = await load_publishers(transaction, scope, {each.cited.page.site for each in quotes})
    return [
        replace(quote, cited=quote.cited._replace(page=page._replace(publisher=known[page.site])))
        if (page := quote.cited.page).site in known
        else quote
        for quote in quotes
    ]


async def load_publishers(
    transaction: Transaction, scope: GraphScope, hosts: Iterable[str]
) -> dict[str, Publisher]:
    """The publishers of sites, by host, where the graph has exactly one."""
    sites = [
        {"host": host, "spelling": each.format(host.removeprefix("www."))}
        for host in sorted(hosts)
        if host
        for each in _SPELLINGS
    ]
    found: defaultdict[str, list[Publisher]] = defaultdict(list)
    params = {**scope.sql_params, "sites": json_text(sites)}
    for host, name, country in await _PUBLISHERS.tuples(transaction, params):
        found[host].append(Publisher(name, country or ""))
    return {host: known[0] for host, known in found.items() if len(known) == 1}
