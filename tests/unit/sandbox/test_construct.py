"""Graph construction: from a document to calls, round by round."""

import json
from typing import Any

import pytest

from sandbox.reader.construct.relations import Relation, relation_between
from sandbox.text.whole import place_of
from tests.unit.sandbox.asking import (
    CONSTRUCTION,
    EMPTY_GRAPH,
    Body,
    answer,
    arguments,
    followed,
    query_section,
    request,
)

OBJECTIVE = "Find out about exports of Ghana"
DOCUMENT = """\
# Find out about exports of Ghana

## Ghana: Economy
Source: https://press.example/ghana
Published: 2026-01-02

- Ghana — Economic overview: West African economy; major gold exporter.
- Ghana — Exports 2023: $25.365 billion (2023 est.).
- Ghana — Exports - partners: Switzerland 24%, UAE 18% (2023).
- Ghana — Exports - commodities: gold, crude petroleum, cocoa beans (2023).
- Ghana's President John Dramani MAHAMA met the Bank of England in Accra.
"""
GHANA_ID = "00000000-0000-4000-8000-000000000001"


def body(document: str = DOCUMENT, graph: str = EMPTY_GRAPH) -> Body:
    sections = {
        "mission": "Watch exports",
        "query": query_section(OBJECTIVE, "Ghana exports"),
        "document": document,
        "graph_context": graph,
    }
    return request(sections, CONSTRUCTION)


def looked(
    asked: Body, node_types: list[Any] | None = None, nodes: list[Any] | None = None
) -> Body:
    """After the first round: what there is."""
    given = answer(asked)
    found = {
        "listNodeTypes": {"nodeTypes": node_types or []},
        "listEdgeTypes": {"edgeTypes": []},
        "queryGraph": {"nodes": nodes or [], "edges": []},
    }
    return followed(asked, given, [found[call.name] for call in given.calls])


def made_types(asked: Body) -> Body:
    given = answer(asked)
    return followed(
        asked, given, [{"name": json.loads(call.arguments)["name"]} for call in given.calls]
    )


def added_nodes(asked: Body) -> Body:
    given = answer(asked)
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(len(given.calls))]
    return followed(asked, given, [{"nodeId": one, "created": True} for one in ids])


def test_looks_before_it_writes() -> None:
    given = answer(body())
    assert [call.name for call in given.calls[:2]] == ["listNodeTypes", "listEdgeTypes"]
    assert {"Ghana", "Switzerland", "gold"} <= {
        one["text"] for one in arguments(given, "queryGraph")
    }


def test_makes_the_types_that_lack_and_no_others() -> None:
    country = {
        "name": "Country",
        "description": "a country",
        "propertiesSchema": {"type": "object"},
    }
    given = answer(looked(body(), [country]))
    names = {one["name"] for one in arguments(given, "createNodeType")}
    assert "Country" not in names
    assert {"Commodity", "Person", "Organization", "Place"} <= names
    edges = {one["name"] for one in arguments(given, "createEdgeType")}
    assert {"exports_partners", "exports_commodities"} <= edges


def test_nodes_are_quoted_letter_by_letter() -> None:
    given = answer(made_types(looked(body())))
    nodes = {one["name"]: one for one in arguments(given, "addGraphNode")}
    types = {name: one["type"] for name, one in nodes.items()}
    assert types == {
        "Ghana": "Country",
        "Switzerland": "Country",
        "UAE": "Country",
        "gold": "Commodity",
        "crude petroleum": "Commodity",
        "cocoa beans": "Commodity",
        "John Dramani MAHAMA": "Person",
        "Bank of England": "Organization",
        "Accra": "Place",
    }
    for name, node in nodes.items():
        assert name in node["properties"]["quote"]
        borne_out = [named for each in node["evidence"] for named in each["properties"]]
        assert sorted(borne_out) == sorted(node["properties"])
        for each in node["evidence"]:
            assert each["quote"] in DOCUMENT
            assert each["sourceUrl"] == "https://press.example/ghana"
            assert (
                node["properties"].get("quote") == each["quote"]
                or "quote" not in each["properties"]
            )
    assert nodes["Ghana"]["properties"]["Exports 2023"] == "$25.365 billion (2023 est.)"
    assert (
        nodes["Ghana"]["properties"]["summary"]
        == "Ghana: West African economy; major gold exporter"
    )


def test_edges_join_what_stands_in_one_sentence_and_then_it_ends() -> None:
    asked = added_nodes(made_types(looked(body())))
    names = [one["name"] for one in arguments(answer(made_types(looked(body()))), "addGraphNode")]
    given = answer(asked)
    edges = arguments(given, "addGraphEdge")
    told = {
        (one["type"], *(names[int(one[end][-12:])] for end in ("sourceId", "targetId"))): one
        for one in edges
    }
    assert told["exports_partners", "Ghana", "Switzerland"]["properties"]["figure"] == "24%"
    assert ("exports_commodities", "Ghana", "gold") in told
    assert all(each["quote"] in DOCUMENT for one in edges for each in one["evidence"])
    done = followed(asked, given, [{"edgeId": "e", "created": True} for _ in edges])
    assert answer(done).calls == ()
    assert f"{len(edges)} new edges" in answer(done).text


def test_a_known_node_keeps_its_type_and_its_summary() -> None:
    known = {"id": GHANA_ID, "type": "State", "name": "Ghana", "properties": {"summary": "known"}}
    state = {"name": "State", "description": "", "propertiesSchema": {"type": "object"}}
    document = DOCUMENT.replace("Economic overview", "Remark")
    given = answer(made_types(looked(body(document), [state], [known])))
    (ghana,) = [one for one in arguments(given, "addGraphNode") if one["name"] == "Ghana"]
    assert ghana["type"] == "State"
    assert "summary" not in ghana["properties"]


def test_properties_are_fitted_to_a_strict_type() -> None:
    schema = {
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
        "additionalProperties": False,
    }
    given = answer(made_types(looked(body(), [{"name": "Country", "propertiesSchema": schema}])))
    (ghana,) = [one for one in arguments(given, "addGraphNode") if one["name"] == "Ghana"]
    assert ghana["properties"].keys() == {"summary"}


def test_refused_calls_are_not_made_again_but_told() -> None:
    asked = made_types(looked(body()))
    given = answer(asked)
    refused = followed(asked, given, [{"error": "There is no such type."} for _ in given.calls])
    end = answer(refused)
    assert end.calls == ()
    assert "addGraphNode was refused: There is no such type." in end.text


def test_a_document_without_facts_ends_at_once() -> None:
    given = answer(body("# Objective\n\nNothing was found for this; searched for: x."))
    assert given.calls == ()
    assert given.text


def test_any_markdown_will_do() -> None:
    document = (
        "Volta Motors of Leipzig buys cells from Kestrel Power (https://press.example/volta)."
    )
    given = answer(made_types(looked(body(document))))
    assert {"Volta Motors", "Kestrel Power"} <= {
        one["name"] for one in arguments(given, "addGraphNode")
    }


@pytest.mark.parametrize(
    ("between", "relation"),
    [
        (" acquired the recycling firm ", Relation("acquires")),
        (" was acquired by ", Relation("acquires", reversed=True)),
        (" buys its lithium from ", Relation("buys_from")),
        (", a battery maker based in ", Relation("located_in")),
        (" is a battery maker in ", Relation("located_in")),
        ("'s ", Relation("part_of", reversed=True)),
        (" and ", Relation("mentioned_with")),
        (" will send its ships around the ", Relation("mentioned_with")),
        (" ships oil to ", Relation("supplies")),
        (" met, after a long day; and much later that year ", None),
    ],
)
def test_relations(between: str, relation: Relation | None) -> None:
    assert relation_between(between) == relation


def types_made(
    text: str, title: str = "News", url: str = "https://press.example/x"
) -> dict[str, str]:
    document = f"# Objective\n\n## {title}\nSource: {url}\n\n{text}"
    given = answer(made_types(looked(body(document))))
    return {one["name"]: one["type"] for one in arguments(given, "addGraphNode")}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (
            "Harbour Line, the largest shipping company of Oslo, grew.",
            "Harbour Line",
            "Organization",
        ),
        ("The president of the European Commission spoke.", "European Commission", "Organization"),
        ("Ships met at the Port of Tema in May.", "Port of Tema", "Place"),
        ("They sailed over Lake Volta in May.", "Lake Volta", "Place"),
    ],
)
def test_kinds_of_names(text: str, name: str, kind: str) -> None:
    assert types_made(text)[name] == kind


def test_the_address_of_a_page_says_what_it_is_about() -> None:
    text = "Kosovo — Background: a war ended in 1999."
    filed = "https://press.example/countries/kosovo/"
    assert types_made(text, "Kosovo: Geography", filed)["Kosovo"] == "Country"
    assert types_made(text, "Kosovo: Geography")["Kosovo"] == "Topic"


def test_a_measure_lists_nothing_and_an_abbreviation_is_no_second_node() -> None:
    text = (
        "- Togo — Telephones, subscriptions per 100 inhabitants: few, some.\n"
        "- Togo met the International Monetary Fund; the IMF lent it money.\n"
        "- The IMF wants more.\n"
    )
    made = types_made(text, "Togo: Economy")
    assert "International Monetary Fund" in made
    assert not made.keys() & {"IMF", "few", "some"}


def test_what_is_asked_about_is_the_same_thing_or_told_apart() -> None:
    bank, other = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    asked = made_types(looked(body()))
    given = answer(asked)
    refusals = {
        "Bank of England": f'There is [node:{bank}] "Banks of England" (0.90), which may be the same thing. If one '
        f'of them is, add it under that name; if none is, call again with distinctFrom: ["{bank}"].',
        "Switzerland": f'There is [node:{other}] "Swaziland \\"old\\"" (0.60), which may be the same thing. If one '
        f'of them is, add it under that name; if none is, call again with distinctFrom: ["{other}"].',
    }
    names = [one["name"] for one in arguments(given, "addGraphNode")]
    results: list[Body] = [
        {"error": refusals[name]}
        if name in refusals
        else {"nodeId": f"id of {name}", "created": True}
        for name in names
    ]
    decided_on = followed(asked, given, results)
    again = answer(decided_on)
    told = {one["name"]: one.get("distinctFrom") for one in arguments(again, "addGraphNode")}
    assert told == {"Banks of England": None, "Switzerland": [other]}
    results = [
        {"nodeId": f"id of {one['name']}", "created": True}
        for one in arguments(again, "addGraphNode")
    ]
    ends = {
        one[end]
        for one in arguments(answer(followed(decided_on, again, results)), "addGraphEdge")
        for end in ("sourceId", "targetId")
    }
    assert {"id of Banks of England", "id of Switzerland", "id of Ghana"} <= ends


def test_a_type_that_is_there_under_another_name_is_used() -> None:
    asked = looked(body())
    given = answer(asked)
    results = [
        {"name": {"Commodity": "Commodities"}.get(name, name), "created": False}
        for name in (json.loads(call.arguments)["name"] for call in given.calls)
    ]
    nodes = arguments(answer(followed(asked, given, results)), "addGraphNode")
    assert {one["type"] for one in nodes if one["name"] == "gold"} == {"Commodities"}


NEIGHBOURS = """\
# Find out about exports of West Africa

## Guinea-Bissau: Economy
Source: https://press.example/bissau

- Guinea-Bissau exports 210,000 tonnes of cashews.
- Guinea-Bissau borders Guinea.

## Guinea: Economy
Source: https://press.example/guinea

- Guinea — Land boundaries: Guinea-Bissau 421 km; Liberia 590 km.
- The gas is that of Equatorial Guinea, 5.1 million tonnes.
- Bauxite leaves Guinea by sea.
"""


def test_a_name_is_no_part_of_a_longer_one() -> None:
    given = answer(made_types(looked(body(NEIGHBOURS))))
    quotes = {
        one["name"]: {each["quote"] for each in one["evidence"]}
        for one in arguments(given, "addGraphNode")
    }
    assert not any("cashews" in quote or "gas" in quote for quote in quotes["Guinea"])
    assert any("cashews" in quote for quote in quotes["Guinea-Bissau"])


@pytest.mark.parametrize(
    ("name", "sentence", "place"),
    [
        ("Guinea", "Guinea-Bissau borders Guinea.", 22),
        ("Guinea", "Equatorial Guinea and Guinea's north", 22),
        ("Bissau", "Guinea-Bissau grows.", -1),
        ("Guinea", "Guineans vote.", -1),
        ("Guinea", "A Guinea-based firm.", 2),
        ("Niger", "Nigeria and Niger", 12),
        ("Johnson & Sons Ltd.", "By Johnson & Sons Ltd. of Accra", 3),
    ],
)
def test_names_stand_whole(name: str, sentence: str, place: int) -> None:
    assert place_of(name, sentence, ["Equatorial Guinea", "Guinea-Bissau"]) == place
