"""Graph construction: from a document to calls, round by round."""

import json

from tests.support.sandbox.asking import Body, answer, arguments, followed
from tests.support.sandbox.constructing import DOCUMENT, added_nodes, body, looked, made_types

GHANA_ID = "00000000-0000-4000-8000-000000000001"


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
