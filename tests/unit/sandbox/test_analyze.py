"""Analysis generation: a conclusion with citations, or what is missing."""

from tests.support.sandbox.asking import ANALYSIS, Body, answer, arguments, followed, request

GHANA, TOGO, INDIA, EDGE, OTHER = (
    f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(1, 6)
)
OBSERVATION = "Ghana and Togo each state a figure for “Exports”."
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


def test_figures_are_compared_with_the_values_that_the_nodes_state() -> None:
    (made,) = arguments(answer(body(FIGURES)), "addAgentAnalysisNode")
    assert made["name"] == "Exports: Ghana and Togo compared"
    assert "Of Ghana and Togo, Ghana states the highest exports: $25.4 billion" in made["summary"]
    assert f"- Togo: Exports 2020 is $1.7 billion [node:{TOGO}]" in made["content"]
    assert f"rose from $23.9 billion to $25.4 billion [node:{GHANA}]" in made["content"]
    assert 0 < made["confidence"] < 1


def test_ends_with_a_sentence_once_it_is_written() -> None:
    asked = body(FIGURES)
    written = followed(asked, answer(asked), [{"nodeId": OTHER}])
    assert answer(written).calls == ()
    assert answer(written).text.startswith("Of Ghana and Togo, Ghana states the highest")


def test_ties_the_analysis_to_a_node_only_where_there_is_an_edge_type_for_it() -> None:
    asked = body(
        FIGURES, context="## Edge types\n- about: the analysis is about this node (0 edges)"
    )
    written = followed(asked, answer(asked), [{"nodeId": OTHER}])
    assert arguments(answer(written), "addGraphEdge") == [
        {"type": "about", "sourceId": OTHER, "targetId": GHANA}
    ]
    tied = followed(written, answer(written), [{"edgeId": EDGE}])
    assert answer(tied).calls == ()


def test_looks_once_where_too_little_was_shown_and_then_says_what_is_missing() -> None:
    asked = body(f'- [node:{GHANA}] Country "Ghana" {{"summary": "x"}}')
    look = answer(asked)
    assert arguments(look, "queryGraph")[0]["nodeIds"] == [GHANA, TOGO]
    nothing = followed(asked, look, [{"nodes": [], "edges": []}])
    assert answer(nothing).text == "MISSING: a figure for “Exports” of Ghana"


def test_uses_what_it_looked_up() -> None:
    asked = body(f'- [node:{GHANA}] Country "Ghana" {{"Exports": "$1 million"}}')
    togo = {"id": TOGO, "type": "Country", "name": "Togo", "properties": {"Exports": "$3 million"}}
    found = followed(asked, answer(asked), [{"nodes": [togo], "edges": []}])
    (made,) = arguments(answer(found), "addAgentAnalysisNode")
    assert f"[node:{TOGO}]" in made["content"]


def test_figures_of_other_units_are_not_compared() -> None:
    nodes = FIGURES.replace("$1.7 billion", "17% of GDP")
    asked = body(nodes)
    looked = followed(asked, answer(asked), [{"nodes": [], "edges": []}])
    assert (
        answer(looked).text == "MISSING: a comparable figure for “Exports” of Ghana\n"
        "MISSING: a comparable figure for “Exports” of Togo"
    )


def test_shared_edges_are_cited() -> None:
    nodes = (
        f'{FIGURES}\n- [node:{INDIA}] Country "India" {{}}\n'
        f'- [edge:{EDGE}] "Ghana" -exports_partners-> "India" {{"figure": "8%"}}\n'
        f'- [edge:{OTHER}] "Togo" -exports_partners-> "India"'
    )
    observation = "Ghana and Togo both have an edge “exports partners” to India."
    (made,) = arguments(answer(body(nodes, observation)), "addAgentAnalysisNode")
    assert made["name"] == "Exports partners: India shared by Ghana and Togo"
    for cited in (f"[edge:{EDGE}]", f"[edge:{OTHER}]", f"[node:{INDIA}]"):
        assert cited in made["content"]


def test_what_is_analyzed_already_is_not_said_again() -> None:
    context = (
        f'## Analyses\n- [node:{OTHER}] pattern "Exports: Ghana and Togo compared": Ghana leads.'
    )
    asked = body(FIGURES, context=context)
    looked = followed(asked, answer(asked), [{"nodes": [], "edges": []}])
    assert answer(looked).text.startswith("MISSING: a newer figure for “Exports” of Ghana")


def test_gives_up_after_refusals() -> None:
    asked = body(FIGURES)
    for _ in range(5):
        given = answer(asked)
        if not given.calls:
            break
        asked = followed(asked, given, [{"error": "no"} for _ in given.calls])
    assert answer(asked).calls == ()
