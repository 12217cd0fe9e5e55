"""What an Observer looks up in a graph with too many nodes to show their names."""

import re
from collections.abc import Sequence
from typing import Final

from shared.database.engine import Database
from shared.graph.context import recent
from shared.graph.prompt_format import node_line, quote_name, shorten_properties, truncate_to_budget
from shared.graph.scope import GraphScope

MAX_NODES: Final = 10
"""Shown for one name."""
MAX_NAMES: Final = 300
"""Shown of one group."""
NAMES_CHARS: Final = 4_000
"""Of the names of one group."""
TOKENS: Final = 3_000
_GROUP: Final = re.compile(r"(?P<type>[^:]+):\s*(?P<initial>\S)\S{0,2}")


async def look_up(database: Database, scope: GraphScope, wanted: Sequence[str]) -> list[str]:
    """Lines with the nodes whose names contain each of `wanted`, or with the names of a group such as `Company: A`."""
    lines: list[str] = []
    for text in wanted:
        group = _GROUP.fullmatch(text.strip("`\"' "))
        if group is not None:
            query = recent.names_in_group(scope, group["type"].strip(), group["initial"], MAX_NAMES)
            if names := await database.run(query):
                lines.append(_names_line(text, names))
                continue
        nodes = await database.run(recent.nodes_named(scope, text, MAX_NODES))
        lines += [
            node_line(None, node.type, node.name, shorten_properties(node.properties))
            for node in nodes
        ] or [f"- nothing is named {quote_name(text)}"]
    return truncate_to_budget(lines, scope.budget_bytes(TOKENS)).splitlines()


def _names_line(group: str, names: Sequence[str]) -> str:
    shown: list[str] = []
    room = NAMES_CHARS
    for name in map(quote_name, names):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = len(names) - len(shown)
    return f"- {group}: {', '.join(shown)}{f', and {more} more: name what you look for' if more else ''}"
