"""What an answer holds of what there is: all of it in short while there is room, then in full what room is left."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.prompt_format import shorten_properties
from shared.graph.retrieval import query
from shared.tools import Json

_texts = st.builds(
    lambda letter, count: letter * count, st.sampled_from("xé中"), st.integers(0, 900)
)
_properties = st.dictionaries(
    st.sampled_from(["summary", "quote", "country", "of"]), st.one_of(_texts, st.integers())
)
_things = st.lists(
    st.builds(lambda properties: {"properties": properties}, _properties), max_size=60
)


def _bytes(thing: object) -> int:
    return len(json.dumps(thing, ensure_ascii=False).encode())


def _brief(thing: Json) -> Json:
    return {"properties": shorten_properties(thing["properties"])}


@given(nodes=_things, edges=_things)
def test_as_much_is_shown_as_there_is_room_for_nodes_first(
    nodes: list[Json], edges: list[Json]
) -> None:
    answer = query.truncate_response(nodes, edges, [])
    shown: list[Any] = [*answer["nodes"], *answer["edges"]]
    things = [*nodes, *edges]
    assert _bytes(answer) <= query.MAX_BYTES
    assert all(
        each in (whole, _brief(whole)) for each, whole in zip(shown, things, strict=False)
    ), "a prefix of all, each in full or in short"
    if len(shown) < len(things):
        brief = [_brief(each) for each in things[: len(shown) + 1]]
        assert _bytes(brief) > query.MAX_BYTES - 500, "even in short there is no room for the next"
        assert f"{len(things) - len(shown)} nodes or edges are left out" in answer["cut"]
    shortened_things = sum(each != whole for each, whole in zip(shown, things, strict=False))
    if shortened_things:
        assert f"and {shortened_things} are shortened" in answer["cut"]
    elif len(shown) == len(things):
        assert "cut" not in answer


def test_what_is_shortened_is_as_little_as_can_be() -> None:
    long = {"properties": {"summary": "x" * 6_000}}
    answer = query.truncate_response([long, long, long, long], [], ["So it is."])
    assert answer["nodes"][:3] == [long, long, long]
    assert len(answer["nodes"][3]["properties"]["summary"]) < 300
    assert "0 nodes or edges are left out and 1 are shortened" in answer["cut"]
    assert answer["cut"].endswith("So it is.")


@given(nodes=_things, edges=_things)
def test_edges_for_which_there_is_no_room_need_not_be_read(
    nodes: list[Json], edges: list[Json]
) -> None:
    read = query.truncate_response(nodes, edges, [])
    if query.has_room_behind(nodes):
        assert len(read["nodes"]) == len(nodes)
    else:
        assert query.truncate_response(nodes, [], [], unread=len(edges)) == read
