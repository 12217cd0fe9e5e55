"""How nodes and edges read in the answer of a tool: whole where there is room, and never more than fits."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from shared.graph.lines import shortened
from shared.tools import Json

MAX_BYTES: Final = 20_000
_FRAME_BYTES: Final = 300
"""The brackets and the sentence about the length."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def bounded(
    nodes: Sequence[Json],
    edges: Sequence[Json],
    cuts: Sequence[str],
    unread: int = 0,
    **more: Sequence[Json],
) -> Json:
    """Everything in short while it fits, nodes before edges; then in full what the room that is left allows.

    `cuts` are sentences about what was left out before, `unread` how many edges were for want of room (see
    `has_room_behind`); `more` stands beside nodes and edges, whole.
    """
    wholes = [*nodes, *edges]
    left_bytes = MAX_BYTES - _FRAME_BYTES - sum(map(_size_bytes, (*cuts, more)))
    shown = _fitted(wholes, left_bytes)
    left_out = len(wholes) - len(shown) + unread
    shortened_count = sum(each is not whole for each, whole in zip(shown, wholes, strict=False))
    if left_out or shortened_count:
        cuts = [
            f"For length, {left_out} nodes or edges are left out and {shortened_count} are shortened; ask for fewer, "
            "by nodeIds, to see them in full.",
            *cuts,
        ]
    answer: Json = {**more, "nodes": shown[: len(nodes)], "edges": shown[len(nodes) :]}
    return answer | ({"cut": " ".join(cuts)} if cuts else {})


def has_room_behind(nodes: Sequence[Json]) -> bool:
    """Whether any edge could be shown with them, were there no cuts to tell of."""
    return len(_fitted(nodes, MAX_BYTES - _FRAME_BYTES)) == len(nodes)


def _fitted(wholes: Sequence[Json], left_bytes: int) -> list[Json]:
    sizes = list(_sizes_bytes(wholes, left_bytes))
    if len(sizes) == len(wholes):
        return list(wholes)
    shown: list[Json] = []
    more_bytes: list[int] = []  # that each takes whole
    for index, whole in enumerate(wholes):
        brief = _brief(whole)
        whole_bytes = sizes[index] if index < len(sizes) else _size_bytes(whole)
        size_bytes = whole_bytes if brief is whole else _size_bytes(brief)
        if size_bytes > left_bytes:
            break
        left_bytes -= size_bytes
        shown.append(brief)
        more_bytes.append(whole_bytes - size_bytes)
    for index, more in enumerate(more_bytes):
        if shown[index] is not wholes[index] and more <= left_bytes:
            left_bytes -= more
            shown[index] = wholes[index]
    return shown


def _sizes_bytes(things: Sequence[Json], left_bytes: int) -> Iterator[int]:
    """Of each, as long as all of them fit: what lies behind is not even looked at."""
    left_bytes -= len("[]")
    for thing in things:
        size_bytes = _size_bytes(thing)
        left_bytes -= size_bytes
        if left_bytes < 0:
            return
        yield size_bytes


def _brief(thing: Json) -> Json:
    """`thing` itself where there is nothing to shorten."""
    properties = shortened(thing["properties"])
    return thing if properties == thing["properties"] else {**thing, "properties": properties}


def _size_bytes(thing: object) -> int:
    return len(_ENCODER.encode(thing).encode()) + len(", ")
