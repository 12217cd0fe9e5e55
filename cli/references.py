"""What a user names: an agent, a node, a source …, by the beginning of its name or of its id.

A name that fits exactly wins over one that only begins so. Without a match, or with several, the error lists candidates.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

from cli.client.http import NotFoundError, url_path
from cli.errors import CommandError
from shared.schemas.base import InboxItemResponse

if TYPE_CHECKING:
    from cli.client.client import Client
    from shared.schemas.base import EdgeResponse, NodeResponse

MAX_LISTED: Final = 5
MAX_NODES: Final = 50
MIN_ID_DIGITS: Final = 4
SHORT_ID_DIGITS: Final = 8
_ID_PREFIX: Final = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}")
ANALYSIS_TYPE: Final = "AgentAnalysis"
ADVICE_TYPE: Final = "AgentAdvice"

T = TypeVar("T")


class NoMatchError(CommandError):
    """A name fits nothing, or more than one thing."""


class Named(NamedTuple):
    """How something can be named."""

    id: UUID
    names: Sequence[str]
    """The first one is shown."""


def find(
    kind: str, reference: str, items: Iterable[T], describe: Callable[[T], Named], *, see: str
) -> T:
    """The item that `reference` names. `see` is the command that lists them.

    Raises NoMatchError, which lists candidates, unless it is exactly one.
    """
    named = [(item, describe(item)) for item in items]
    wanted = _normal(reference)
    by_level = (
        [item for item in named if str(item[1].id) == wanted],
        [item for item in named if any(_normal(name) == wanted for name in item[1].names)],
        [item for item in named if wanted and _begins(item[1], wanted)],
    )
    matches = next((level for level in by_level if level), [])
    if len(matches) == 1:
        return matches[0][0]
    if matches:
        raise ambiguous(kind, reference, [each for _, each in matches])
    raise unknown(kind, reference, [each for _, each in named], see)


def find_id(
    kind: str, reference: str, items: Iterable[T], describe: Callable[[T], Named], *, see: str
) -> UUID:
    """The id of the item that `reference` names; without a look at the items if it is a complete id."""
    item_id = as_uuid(reference)
    if item_id is not None:
        return item_id
    return describe(find(kind, reference, items, describe, see=see)).id


def ambiguous(kind: str, reference: str, candidates: Sequence[Named]) -> NoMatchError:
    ids = short_ids([each.id for each in candidates])
    listed = [f"{each.names[0]} ({ids[each.id]})" for each in candidates[:MAX_LISTED]]
    more = len(candidates) - len(listed)
    names = ", ".join(listed) + (f" and {more} more" if more > 0 else "")
    return NoMatchError(
        f"{reference!r} matches more than one {kind}: {names}. Enter more of the name, or the id"
    )


def unknown(kind: str, reference: str, candidates: Sequence[Named], see: str) -> NoMatchError:
    near = _near(reference, [each.names[0] for each in candidates])
    if near:
        return NoMatchError(f"There is no {kind} {reference!r}: did you mean {' or '.join(near)}?")
    return NoMatchError(f"There is no {kind} {reference!r}: `{see}` lists them")


def short_ids(ids: Sequence[UUID]) -> dict[UUID, str]:
    """The beginning of each id, so long that it fits no other of them."""
    for digits in (SHORT_ID_DIGITS, 13, 18, 23):
        if len({str(each)[:digits] for each in ids}) == len(set(ids)):
            return {each: str(each)[:digits] for each in ids}
    return {each: str(each) for each in ids}


def as_uuid(reference: str) -> UUID | None:
    """A complete id; None if it is not one."""
    try:
        return UUID(reference.strip())
    except ValueError:
        return None


def is_id_prefix(reference: str) -> bool:
    """Whether an id can begin so."""
    return _ID_PREFIX.fullmatch(reference.strip()) is not None


def find_node(client: "Client", agent: str, reference: str, *types: str) -> UUID:
    """The node of the agent, of one of these types if any are given; of advice also the inbox item. Raises CommandError."""
    node_id = as_uuid(reference)
    if node_id is not None:
        return _advice_of_item(client, node_id) if ADVICE_TYPE in types else node_id
    kind = {ANALYSIS_TYPE: "analysis", ADVICE_TYPE: "advice"}.get(types[0] if types else "", "node")
    nodes = _candidates(client, [agent], reference, types)
    return find(kind, reference, nodes, name_of_node, see=_list_of(kind)).id


def find_conclusion(client: "Client", agent: str | None, reference: str) -> UUID:
    """The analysis or advice of that agent, or of any agent; or the advice of an inbox item. Raises CommandError."""
    conclusion_id = as_uuid(reference)
    if conclusion_id is not None:
        return _advice_of_item(client, conclusion_id)
    if is_id_prefix(reference):
        digits = reference.strip().lower()
        advice = {
            each.node_id
            for each in client.inbox(unread=False, limit=None)
            if each.node_id is not None and str(each.id).startswith(digits)
        }
        if len(advice) == 1:
            return advice.pop()
    names = [agent] if agent is not None else [each.name for each in client.agents()]
    nodes = _candidates(client, names, reference, (ADVICE_TYPE, ANALYSIS_TYPE))
    kind = "analysis or advice"
    return find(kind, reference, nodes, name_of_node, see="vigil advice AGENT").id


def _advice_of_item(client: "Client", id_: UUID) -> UUID:
    """The advice of the inbox item with this id; the id itself if there is none. Raises CommandError if it is a notice."""
    try:
        item = client.get(InboxItemResponse, url_path("inbox", id_))
    except NotFoundError:
        return id_
    if item.node_id is None:
        raise CommandError(f"{item.title!r} is a notice, which is not a conclusion")
    return item.node_id


def find_edge(client: "Client", agent: str, reference: str) -> UUID:
    """The edge with this id, or the beginning of it. Raises CommandError."""
    edge_id = as_uuid(reference)
    if edge_id is not None:
        return edge_id
    digits = reference.strip().lower()
    edges = client.edges(agent, MAX_NODES, id_prefix=digits) if is_id_prefix(digits) else ()

    def describe(edge: "EdgeResponse") -> Named:
        return Named(edge.id, [f"{edge.source_name} —{edge.type}→ {edge.target_name}"])

    return find("edge", reference, edges, describe, see="vigil graph AGENT edges").id


def name_of_node(node: "NodeResponse") -> Named:
    return Named(node.id, [node.name])


def _candidates(
    client: "Client", agents: Sequence[str], reference: str, types: Sequence[str]
) -> "list[NodeResponse]":
    """Nodes whose name or id may begin so; without any, those that an error can suggest."""
    text = reference.strip()
    filters: list[dict[str, str | None]] = [{"search": text[:200]}] if text else []
    filters += [{"id_prefix": text.lower()}] if is_id_prefix(text) else []

    def load(queries: list[dict[str, str | None]]) -> "list[NodeResponse]":
        places = [(agent, kind) for agent in agents for kind in types or (None,)]
        found = {
            each.id: each
            for agent, kind in places
            for query in queries
            for each in client.nodes(agent, MAX_NODES, type=kind, **query)
        }
        return list(found.values())

    return load(filters) or load([{}])


def _begins(named: Named, wanted: str) -> bool:
    if len(wanted) >= MIN_ID_DIGITS and str(named.id).startswith(wanted):
        return True
    return any(_normal(name).startswith(wanted) for name in named.names)


def _near(reference: str, names: Sequence[str]) -> list[str]:
    """Names that contain it, or are written much like it."""
    wanted = _normal(reference)
    by_normal = {_normal(name): name for name in names}
    inside = [name for normal, name in by_normal.items() if wanted and wanted in normal]
    # The user may have written only the beginning.
    by_beginning = {normal[: len(wanted) + 1]: name for normal, name in by_normal.items()}
    close = get_close_matches(wanted, list(by_beginning), n=3, cutoff=0.6)
    return list(dict.fromkeys([*inside[:3], *(by_beginning[each] for each in close)]))[:3]


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


def _list_of(kind: str) -> str:
    return {"analysis": "vigil analyses AGENT", "advice": "vigil advice AGENT"}.get(
        kind, "vigil graph AGENT nodes"
    )
