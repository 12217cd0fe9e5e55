"""Analysis generation: a conclusion with citations, or what is missing."""

from tests.support.sandbox.requests import ANALYSIS, Body, answer, arguments, next_request, request

GHANA, TOGO, INDIA, EDGE, OTHER = (
    f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(1, 6)
)
OBSERVATION = "Ghana and Togo each have a figure for “Exports”."
FIGURES = (
    f'- [node:{GHANA}] Country "Ghana" {{"Exports 2023": "$25.4 billion", "Exports 2021": "$23.9 billion"}}\n'
    f'- [node:{TOGO}] Country "Togo" {{"Exports 2020": "$1.7 billion", "Imports": "$2 billion"}}'
)


def body(nodes: str, observation: str = OBSERVATION, context: str = "") -> Body:
    insight = f"Observation: {observation}\nSynthesis direction: Compare.\nRelevant node ids: {GHANA}, {TOGO}"
    sections = {
        "mission": "Watch exports",
        "insight": insight,
        "relevant_nodes": nodes,
        "graph_context": context,
    }
    return request(sections, ANALYSIS)


def test_figures_of_the_nodes_are_compared_and_cited() -> None:
    (analysis,) = arguments(answer(body(FIGURES)), "addAgentAnalysisNode")
    assert analysis["name"] == "Exports: Ghana and Togo compared"
    assert (
        "Of Ghana and Togo, Ghana has the higher reported exports: $25.4 billion"
        in analysis["summary"]
    )
    assert f"- Togo — Exports 2020: $1.7 billion [node:{TOGO}]" in analysis["content"]
    assert f"rose from $23.9 billion to $25.4 billion [node:{GHANA}]" in analysis["content"]
    assert 0 < analysis["confidence"] < 1


def test_ends_with_the_summary_after_writing_the_analysis() -> None:
    request_body = body(FIGURES)
    after_analysis = next_request(request_body, answer(request_body), [{"nodeId": OTHER}])
    assert answer(after_analysis).calls == ()
    assert answer(after_analysis).text.startswith("Of Ghana and Togo, Ghana has the higher")


def test_links_the_analysis_to_a_node_only_if_an_edge_type_exists() -> None:
    request_body = body(
        FIGURES, context="## Edge types\n- about: the analysis is about this node (0 edges)"
    )
    after_analysis = next_request(request_body, answer(request_body), [{"nodeId": OTHER}])
    assert arguments(answer(after_analysis), "addGraphEdge") == [
        {"type": "about", "sourceId": OTHER, "targetId": GHANA}
    ]
    after_edge = next_request(after_analysis, answer(after_analysis), [{"edgeId": EDGE}])
    assert answer(after_edge).calls == ()


def test_queries_the_graph_once_and_then_reports_missing_figures() -> None:
    request_body = body(f'- [node:{GHANA}] Country "Ghana" {{"summary": "x"}}')
    lookup = answer(request_body)
    assert arguments(lookup, "queryGraph")[0]["nodeIds"] == [GHANA, TOGO]
    after_lookup = next_request(request_body, lookup, [{"nodes": [], "edges": []}])
    assert answer(after_lookup).text == "MISSING: the “Exports” figure for Ghana"


def test_uses_the_nodes_that_it_queried() -> None:
    request_body = body(f'- [node:{GHANA}] Country "Ghana" {{"Exports": "$1 million"}}')
    togo = {"id": TOGO, "type": "Country", "name": "Togo", "properties": {"Exports": "$3 million"}}
    after_lookup = next_request(
        request_body, answer(request_body), [{"nodes": [togo], "edges": []}]
    )
    (analysis,) = arguments(answer(after_lookup), "addAgentAnalysisNode")
    assert f"[node:{TOGO}]" in analysis["content"]


def test_figures_in_different_units_are_not_compared() -> None:
    nodes = FIGURES.replace("$1.7 billion", "17% of GDP")
    request_body = body(nodes)
    after_lookup = next_request(request_body, answer(request_body), [{"nodes": [], "edges": []}])
    assert (
        answer(after_lookup).text == "MISSING: a comparable “Exports” figure for Ghana\n"
        "MISSING: a comparable “Exports” figure for Togo"
    )


def test_shared_edges_are_cited() -> None:
    nodes = (
        f'{FIGURES}\n- [node:{INDIA}] Country "India" {{}}\n'
        f'- [edge:{EDGE}] "Ghana" -exports_partners-> "India" {{"figure": "8%"}}\n'
        f'- [edge:{OTHER}] "Togo" -exports_partners-> "India"'
    )
    observation = "Ghana and Togo both have an edge of type “exports partners” to India."
    (analysis,) = arguments(answer(body(nodes, observation)), "addAgentAnalysisNode")
    assert analysis["name"] == "Exports partners: India shared by Ghana and Togo"
    for citation in (f"[edge:{EDGE}]", f"[edge:{OTHER}]", f"[node:{INDIA}]"):
        assert citation in analysis["content"]


def test_an_existing_analysis_is_not_repeated() -> None:
    context = (
        f'## Analyses\n- [node:{OTHER}] pattern "Exports: Ghana and Togo compared": Ghana leads.'
    )
    request_body = body(FIGURES, context=context)
    after_lookup = next_request(request_body, answer(request_body), [{"nodes": [], "edges": []}])
    assert answer(after_lookup).text.startswith("MISSING: a newer “Exports” figure for Ghana")


def test_gives_up_after_repeated_errors() -> None:
    request_body = body(FIGURES)
    for _ in range(5):
        reply = answer(request_body)
        if not reply.calls:
            break
        request_body = next_request(request_body, reply, [{"error": "no"} for _ in reply.calls])
    assert answer(request_body).calls == ()


def test_equal_figures_have_no_highest_and_no_lowest() -> None:
    equal = FIGURES.replace("$1.7 billion", "$25.4 billion").replace("2020", "2023")
    (analysis,) = arguments(answer(body(equal)), "addAgentAnalysisNode")
    assert analysis["summary"] == "Ghana and Togo have the same reported exports: $25.4 billion."
    assert not {"highest", "higher", "lowest", "lower", "times"} & set(analysis["content"].split())


def test_those_that_are_highest_together_are_named_together() -> None:
    nodes = f'{FIGURES}\n- [node:{INDIA}] Country "Mali" {{"Exports 2023": "$25.4 billion"}}'
    section = body(nodes)
    section["messages"][-1]["content"] = section["messages"][-1]["content"].replace(
        f"Relevant node ids: {GHANA}, {TOGO}", f"Relevant node ids: {GHANA}, {TOGO}, {INDIA}"
    )
    (analysis,) = arguments(answer(section), "addAgentAnalysisNode")
    assert "Ghana and Mali have the highest reported exports: $25.4 billion" in analysis["summary"]


def test_figures_of_different_years_are_said_to_be() -> None:
    (analysis,) = arguments(answer(body(FIGURES)), "addAgentAnalysisNode")
    assert analysis["summary"].endswith("The figures are not all from the same year.")
    same = FIGURES.replace("2020", "2023")
    (analysis,) = arguments(answer(body(same)), "addAgentAnalysisNode")
    assert "same year" not in analysis["content"]


STATED = (
    f'- [node:{GHANA}] Topic "Harbor" {{"summary": "A Harbor keeps packages in its cache."}}\n'
    f'- [node:{TOGO}] Topic "Beacon" {{"summary": "A Beacon sends packages to a Harbor."}}'
)


def test_statements_on_a_topic_are_quoted_and_cited() -> None:
    observation = "The sources mention “packages” in statements about Harbor and Beacon."
    (analysis,) = arguments(answer(body(STATED, observation)), "addAgentAnalysisNode")
    assert analysis["name"] == "Packages: what the sources say about Harbor and Beacon"
    assert (analysis["type"], analysis["summary"]) == ("observation", observation)
    assert (
        f"- Harbor: “A Harbor keeps packages in its cache.” [node:{GHANA}]" in analysis["content"]
    )


def test_a_statement_about_the_topic_itself_names_no_other_node() -> None:
    nodes = STATED.replace('Topic "Beacon"', 'Topic "Packages"')
    observation = "The sources mention “packages” in statements about Harbor."
    (analysis,) = arguments(answer(body(nodes, observation)), "addAgentAnalysisNode")
    assert analysis["name"] == "Packages: what the sources say about Harbor"
    assert analysis["summary"] == observation
    assert (
        f"- Packages: “A Beacon sends packages to a Harbor.” [node:{TOGO}]" in analysis["content"]
    )
    alone = body(
        nodes.replace('"A Harbor keeps packages in its cache."', '"x"'),
        "The sources mention “packages”.",
    )
    (analysis,) = arguments(answer(alone), "addAgentAnalysisNode")
    assert analysis["name"] == "Packages: what the sources say"
    assert analysis["summary"] == "The sources mention “packages”."


def test_one_statement_on_two_nodes_is_quoted_once() -> None:
    same = STATED.replace(
        "A Beacon sends packages to a Harbor.", "A Harbor keeps packages in its cache."
    )
    observation = "The sources mention “packages” in statements about Harbor and Beacon."
    (analysis,) = arguments(answer(body(same, observation)), "addAgentAnalysisNode")
    assert analysis["content"].count("“A Harbor") == 1
    assert f"[node:{GHANA}] [node:{TOGO}]" in analysis["content"]


def test_what_is_mentioned_together_is_cited_with_its_edges() -> None:
    nodes = f'{STATED}\n- [edge:{EDGE}] "Beacon" -mentioned_with-> "Harbor"'
    observation = "The sources mention Harbor together with Beacon."
    (analysis,) = arguments(answer(body(nodes, observation)), "addAgentAnalysisNode")
    assert analysis["summary"] == observation
    for citation in (f"[edge:{EDGE}]", f"[node:{GHANA}]", f"[node:{TOGO}]"):
        assert citation in analysis["content"]
