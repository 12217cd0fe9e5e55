"""Response truncation: as many elements as fit in short form, then in full while room is left."""

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
_elements = st.lists(
    st.builds(lambda properties: {"properties": properties}, _properties), max_size=60
)


def _bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _brief(element: Json) -> Json:
    return {"properties": shorten_properties(element["properties"])}


@given(nodes=_elements, edges=_elements)
def test_as_many_elements_as_fit_are_included_nodes_first(
    nodes: list[Json], edges: list[Json]
) -> None:
    answer = query.truncate_response(nodes, edges, [])
    included: list[Any] = [*answer["nodes"], *answer["edges"]]
    elements = [*nodes, *edges]
    assert _bytes(answer) <= query.MAX_BYTES
    assert all(
        element in (whole, _brief(whole))
        for element, whole in zip(included, elements, strict=False)
    ), "a prefix of all elements, each in full or in short form"
    if len(included) < len(elements):
        brief = [_brief(element) for element in elements[: len(included) + 1]]
        assert _bytes(brief) > query.MAX_BYTES - 500, "the next element does not fit in short form"
        assert f"{len(elements) - len(included)} nodes or edges are left out" in answer["cut"]
    shortened = sum(element != whole for element, whole in zip(included, elements, strict=False))
    if shortened:
        assert f"and {shortened} are shortened" in answer["cut"]
    elif len(included) == len(elements):
        assert "cut" not in answer


def test_as_few_elements_as_possible_are_shortened() -> None:
    long = {"properties": {"summary": "x" * 6_000}}
    answer = query.truncate_response([long, long, long, long], [], ["So it is."])
    assert answer["nodes"][:3] == [long, long, long]
    assert len(answer["nodes"][3]["properties"]["summary"]) < 300
    assert "0 nodes or edges are left out and 1 are shortened" in answer["cut"]
    assert answer["cut"].endswith("So it is.")


@given(nodes=_elements, edges=_elements)
def test_edges_need_not_be_read_if_nodes_fill_the_response(
    nodes: list[Json], edges: list[Json]
) -> None:
    response = query.truncate_response(nodes, edges, [])
    if query.has_room_behind(nodes):
        assert len(response["nodes"]) == len(nodes)
    else:
        assert query.truncate_response(nodes, [], [], unread=len(edges)) == response
