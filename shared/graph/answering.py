"""How nodes and edges read in the answer of a tool: whole where there is room, and never more than fits."""

import json
from collections.abc import Sequence
from typing import Final

from shared.graph.lines import shortened
from shared.tools import Json

MAX_BYTES: Final = 20_000
_FRAME_BYTES: Final = 300
"""The brackets and the sentence about the length."""


def bounded(
    nodes: Sequence[Json],
    edges: Sequence[Json],
    cuts: Sequence[str],
    **more: Sequence[Json],
) -> Json:
    """Everything in short while it fits, nodes before edges; then in full what the room that is left allows.

    `cuts` are sentences about what was left out before; `more` stands beside nodes and edges, whole.
    """
    wholes = [*nodes, *edges]
    left_bytes = MAX_BYTES - _FRAME_BYTES - sum(map(_size_bytes, (*cuts, more)))
    shown = _fitted(wholes, left_bytes)
    left_out = len(wholes) - len(shown)
    shortened_count = sum(each is not whole for each, whole in zip(shown, wholes, strict=False))
    if left_out or shortened_count:
        cuts = [
            f"For length, {left_out} nodes or edges are left out and {shortened_count} are shortened; ask for fewer, "
            "by nodeIds, to see them in full.",
            *cuts,
        ]
    answer: Json = {**more, "nodes": shown[: len(nodes)], "edges": shown[len(nodes) :]}
    return answer | ({"cut": " ".join(cuts)} if cuts else {})


def _fitted(wholes: Sequence[Json], left_bytes: int) -> list[Json]:
    whole_bytes = list(map(_size_bytes, wholes))
    if sum(whole_bytes) <= left_bytes:
        return list(wholes)
    shown = list(map(_brief, wholes))
    brief_bytes = list(map(_size_bytes, shown))
    left_bytes -= sum(brief_bytes)
    while left_bytes < 0:
        left_bytes += brief_bytes.pop()
        shown.pop()
    for index, size_bytes in enumerate(brief_bytes):
        more_bytes = whole_bytes[index] - size_bytes
        if more_bytes <= left_bytes:
            left_bytes -= more_bytes
            shown[index] = wholes[index]
    return shown


def _brief(thing: Json) -> Json:
    return {**thing, "properties": shortened(thing["properties"])}


def _size_bytes(thing: object) -> int:
    return len(json.dumps(thing, ensure_ascii=False).encode()) + len(", ")
