"""Graph construction: from a document to calls, round by round."""

import json

from tests.support.sandbox.construction_requests import (
    DOCUMENT,
    body,
    request_after_lookups,
    request_after_nodes,
    request_after_types,
)
from tests.support.sandbox.requests import Body, answer, arguments, next_request

GHANA_ID = "00000000-0000-4000-8000-000000000001"


def test_queries_the_graph_before_it_writes() -> None:
    reply = answer(body())
    assert [call.name for call in reply.calls[:2]] == ["listNodeTypes", "listEdgeTypes"]
    assert {"Ghana", "Switzerland", "gold"} <= {
        params["text"] for params in arguments(reply, "queryGraph")
    }


def test_creates_only_the_missing_types() -> None:
    country = {
        "name": "Country",
        "description": "a country",
        "propertiesSchema": {"type": "object"},
    }
    reply = answer(request_after_lookups(body(), [country]))
    names = {params["name"] for params in arguments(reply, "createNodeType")}
    assert "Country" not in names
    assert {"Commodity", "Person", "Organization", "Place"} <= names
    edge_types = {params["name"] for params in arguments(reply, "createEdgeType")}
    assert {"exports_partners", "exports_commodities"} <= edge_types


def test_nodes_have_verbatim_quotes() -> None:
    reply = answer(request_after_types(request_after_lookups(body())))
    nodes = {node["name"]: node for node in arguments(reply, "addGraphNode")}
    types = {name: node["type"] for name, node in nodes.items()}
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
        proven_properties = [
            property_name
            for evidence in node["evidence"]
            for property_name in evidence.get("properties", node["properties"])
        ]
        assert sorted(proven_properties) == sorted(node["properties"])
        for evidence in node["evidence"]:
            assert evidence["quote"] in DOCUMENT
            assert evidence["sourceUrl"] == "https://press.example/ghana"
            assert node["properties"].get("quote") == evidence[
                "quote"
            ] or "quote" not in evidence.get("properties", node["properties"])
    assert nodes["Ghana"]["properties"]["Exports 2023"] == "$25.365 billion (2023 est.)"
    assert (
        nodes["Ghana"]["properties"]["summary"]
        == "Ghana: West African economy; major gold exporter"
    )


def test_edges_link_the_names_of_one_sentence_and_end_the_phase() -> None:
    request_body = request_after_nodes(request_after_types(request_after_lookups(body())))
    names = [
        node["name"]
        for node in arguments(
            answer(request_after_types(request_after_lookups(body()))), "addGraphNode"
        )
    ]
    reply = answer(request_body)
    edges = arguments(reply, "addGraphEdge")
    edges_by_names = {
        (edge["type"], *(names[int(edge[end][-12:])] for end in ("sourceId", "targetId"))): edge
        for edge in edges
    }
    assert (
        edges_by_names["exports_partners", "Ghana", "Switzerland"]["properties"]["figure"] == "24%"
    )
    assert ("exports_commodities", "Ghana", "gold") in edges_by_names
    assert all(evidence["quote"] in DOCUMENT for edge in edges for evidence in edge["evidence"])
    after_edges = next_request(
        request_body, reply, [{"edgeId": "e", "created": True} for _ in edges]
    )
    assert answer(after_edges).calls == ()
    assert f"{len(edges)} new edges" in answer(after_edges).text


def test_an_existing_node_keeps_its_type_and_summary() -> None:
    existing_node = {
        "id": GHANA_ID,
        "type": "State",
        "name": "Ghana",
        "properties": {"summary": "known"},
    }
    state_type = {"name": "State", "description": "", "propertiesSchema": {"type": "object"}}
    document = DOCUMENT.replace("Economic overview", "Remark")
    reply = answer(
        request_after_types(request_after_lookups(body(document), [state_type], [existing_node]))
    )
    (ghana,) = [node for node in arguments(reply, "addGraphNode") if node["name"] == "Ghana"]
    assert ghana["type"] == "State"
    assert "summary" not in ghana["properties"]


def test_properties_are_fitted_to_a_strict_type() -> None:
    schema = {
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
        "additionalProperties": False,
    }
    reply = answer(
        request_after_types(
            request_after_lookups(body(), [{"name": "Country", "propertiesSchema": schema}])
        )
    )
    (ghana,) = [node for node in arguments(reply, "addGraphNode") if node["name"] == "Ghana"]
    assert ghana["properties"].keys() == {"summary"}


def test_rejected_calls_are_reported_and_not_repeated() -> None:
    request_body = request_after_types(request_after_lookups(body()))
    reply = answer(request_body)
    after_errors = next_request(
        request_body, reply, [{"error": "There is no such type."} for _ in reply.calls]
    )
    last_reply = answer(after_errors)
    assert last_reply.calls == ()
    assert "addGraphNode was refused: There is no such type." in last_reply.text


def test_a_document_without_facts_ends_at_once() -> None:
    reply = answer(body("# Objective\n\nNothing relevant was found for these searches: x."))
    assert reply.calls == ()
    assert reply.text


def test_any_markdown_is_accepted() -> None:
    document = (
        "Volta Motors of Leipzig buys cells from Kestrel Power (https://press.example/volta)."
    )
    reply = answer(request_after_types(request_after_lookups(body(document))))
    assert {"Volta Motors", "Kestrel Power"} <= {
        node["name"] for node in arguments(reply, "addGraphNode")
    }


def test_a_possible_duplicate_is_reused_or_marked_as_distinct() -> None:
    bank, other = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    request_body = request_after_types(request_after_lookups(body()))
    reply = answer(request_body)
    errors = {
        "Bank of England": f'There is [node:{bank}] "Banks of England" (0.90), which may be the same thing. If one '
        f'of them is, add it under that name; if none is, call again with distinctFrom: ["{bank}"].',
        "Switzerland": f'There is [node:{other}] "Swaziland \\"old\\"" (0.60), which may be the same thing. If one '
        f'of them is, add it under that name; if none is, call again with distinctFrom: ["{other}"].',
    }
    names = [params["name"] for params in arguments(reply, "addGraphNode")]
    results: list[Body] = [
        {"error": errors[name]} if name in errors else {"nodeId": f"id of {name}", "created": True}
        for name in names
    ]
    second_request = next_request(request_body, reply, results)
    second_reply = answer(second_request)
    decisions = {
        params["name"]: (params.get("aliases"), params.get("distinctFrom"))
        for params in arguments(second_reply, "addGraphNode")
    }
    assert decisions == {
        "Banks of England": (["Bank of England"], None),
        "Switzerland": (None, [other]),
    }
    results = [
        {"nodeId": f"id of {params['name']}", "created": True}
        for params in arguments(second_reply, "addGraphNode")
    ]
    ends = {
        params[end]
        for params in arguments(
            answer(next_request(second_request, second_reply, results)), "addGraphEdge"
        )
        for end in ("sourceId", "targetId")
    }
    assert {"id of Banks of England", "id of Switzerland", "id of Ghana"} <= ends


def test_an_existing_type_with_another_name_is_used() -> None:
    request_body = request_after_lookups(body())
    reply = answer(request_body)
    results = [
        {"name": {"Commodity": "Commodities"}.get(name, name), "created": False}
        for name in (json.loads(call.arguments)["name"] for call in reply.calls)
    ]
    nodes = arguments(answer(next_request(request_body, reply, results)), "addGraphNode")
    assert {node["type"] for node in nodes if node["name"] == "gold"} == {"Commodities"}
