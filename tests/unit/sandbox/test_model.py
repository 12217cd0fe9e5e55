"""What the model does in each phase with labelled figures, and that it reads nothing else."""

import json
from typing import Any

import pytest

from sandbox.model import Phase, phase_of
from sandbox.model.construct import construct as construct_answer
from sandbox.model.request import Answer, ChatRequest
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.assistant.configure_agent import CONFIGURATION, TYPES
from tests.support.case_files import read_cases
from tests.support.sandbox.requests import (
    ACQUISITION,
    ADVICE,
    ANALYSIS,
    CONSTRUCTION,
    EMPTY_GRAPH,
    answer,
    arguments,
    next_request,
    numbered,
    plan,
    query_section,
    request,
)

CASES = read_cases(__file__)

MISSION = "Watch exports of Ghana and Togo"
GHANA = '- [n1] Country "Ghana" {"Exports 2022": "$17 billion", "Exports 2023": "$25 billion"}'
TOGO = '- [n2] Country "Togo" {"Exports 2023": "$2 billion"}'
GRAPH = f"## Newest nodes\n{GHANA}\n{TOGO}\n"
PAGE = {
    "title": "Ghana: Economy",
    "url": "https://press.example/countries/ghana",
    "score": 0.7,
    "content": numbered(
        "Ghana — Economic overview: a major gold exporter.",
        "Ghana — Exports 2023: $25.365 billion (2023 est.).",
        "Ghana — Exports - partners: Switzerland 24%, UAE 18% (2023).",
        "The president of Ghana said that exports rose by 12%.",
    ),
}
DOCUMENT = f"## {PAGE['title']}\nSource: {PAGE['url']}\nPublished: 2026-01-02\n\n{PAGE['content']}"


def test_an_empty_graph_gives_queries_for_each_topic_and_name() -> None:
    planned = plan(MISSION, EMPTY_GRAPH)
    assert [query["objective"] for query in planned["queries"]] == [
        "Find the figures on exports of Ghana.",
        "Find the figures on exports of Togo.",
        "Find the figures of Ghana.",
    ]
    assert planned["insights"] == []


@pytest.mark.parametrize(("section", "text", "objective"), CASES["news_and_requests_give_queries"])
def test_news_and_requests_give_queries(section: str, text: str, objective: str) -> None:
    asked = "## Recently asked\n" + "\n".join(
        f"- iteration 1, answered: Find the figures {what}."
        for what in ("on exports of Ghana", "on exports of Togo", "of Ghana", "of Togo")
    )
    sections = {"mission": MISSION, "graph_context": f"{GRAPH}{asked}", "news": ""}
    sections[section] += f"\n{text}"
    body = request(sections, schema={}, name="observer_plan")
    queries = json.loads(answer(body).text)["queries"]
    assert [query["objective"] for query in queries] == [objective]


def test_comparable_figures_give_an_insight_until_an_analysis_covers_it() -> None:
    (insight,) = plan(MISSION, GRAPH)["insights"]
    assert insight["relevantNodeIds"] == ["n1", "n2"]
    covered = '## Analyses\n- [n9] observation "Exports: Ghana and Togo compared": Ghana has more than Togo.'
    assert plan(MISSION, f"{GRAPH}{covered}")["insights"] == []


def test_lines_with_labels_of_the_objective_are_cited() -> None:
    body = request(
        {
            "mission": MISSION,
            "query": query_section("Find the figures on exports of Ghana.", "exports Ghana"),
        },
        ACQUISITION,
    )
    reply = answer(body)
    assert arguments(reply, "tavilySearch") == [{"query": "exports Ghana", "maxResults": 8}]
    other = {**PAGE, "title": "Togo: Economy", "url": "https://press.example/togo"}
    found = next_request(body, reply, [{"results": [PAGE, other]}])
    assert answer(found).text == "[1.2] [1.3]"
    cut = {**PAGE, "content": "[1.1] Exports …"}
    asked = next_request(body, reply, [{"results": [cut]}])
    assert arguments(answer(asked), "tavilyExtract") == [{"urls": [PAGE["url"]]}]
    prose = {**PAGE, "content": numbered("The exports of Ghana rose by 12%.")}
    nothing = answer(next_request(body, reply, [{"results": [prose]}])).text
    assert nothing == "Not found: labelled figures on the objective."


def construct(
    document: str, graph: str = EMPTY_GRAPH, *results: dict[str, Any]
) -> tuple[dict[str, Any], Answer]:
    sections = {"mission": MISSION, "query": query_section("Find exports"), "document": document}
    body = request({**sections, "graph_context": graph}, (*CONSTRUCTION, "finish"))
    reply = answer(body)
    return body, reply


def test_figures_become_properties_and_known_lists_become_edges() -> None:
    _, reply = construct(DOCUMENT)
    ghana, *partners = arguments(reply, "addGraphNode")
    assert (ghana["type"], ghana["name"]) == ("Country", "Ghana")
    assert ghana["properties"] == {
        "summary": "Ghana: a major gold exporter",
        "Exports 2023": "$25.365 billion (2023 est.)",
    }
    assert ghana["evidence"] == [
        {"page": 1, "sentences": [1], "properties": ["summary"]},
        {"page": 1, "sentences": [2], "properties": ["Exports 2023"]},
    ]
    assert [(node["type"], node["name"], node["sentences"]) for node in partners] == [
        ("Country", "Switzerland", ["1.3"]),
        ("Country", "UAE", ["1.3"]),
    ]
    assert arguments(reply, "addGraphEdge")[0] == {
        "type": "exports_partners",
        "sourceId": "Ghana",
        "targetId": "Switzerland",
        "properties": {"figure": "24%"},
        "sentences": ["1.3"],
    }
    assert [call["name"] for call in arguments(reply, "createEdgeType")] == ["exports_partners"]
    assert reply.calls[-1].name == "finish"


@pytest.mark.parametrize(
    "document", ["", "The exports of Ghana rose by 12%.", "## A\nSource: b\n\n[1.1] It rose."]
)
def test_prose_is_not_written(document: str) -> None:
    _, reply = construct(document)
    assert [call.name for call in reply.calls] == ["finish"]


def test_an_existing_node_keeps_its_type_and_gets_no_summary() -> None:
    line = "Ghana — Exports 2023: $25 billion"
    document = f"## Ghana: Economy\nSource: https://a.example\n\n{numbered(line)}"
    _, reply = construct(document, '## Newest nodes\n- [n1] State "Ghana" {"summary": "It is."}')
    (node,) = arguments(reply, "addGraphNode")
    assert (node["type"], node["properties"]) == ("State", {"Exports 2023": "$25 billion"})


def test_refused_calls_are_not_repeated_and_duplicates_are_decided() -> None:
    body, reply = construct(DOCUMENT)
    question = {"error": 'Is it [n4] "Schwyz"? Name it, or give distinctFrom.'}
    results = [
        question
        if call.name == "addGraphNode" and "Switzerland" in call.arguments
        else {"created": True}
        for call in reply.calls
    ]
    decided = answer(next_request(body, reply, results))
    (node,) = arguments(decided, "addGraphNode")
    assert (node["name"], node["distinctFrom"]) == ("Switzerland", ["n4"])
    refused = next_request(body, reply, [{"error": "No."} for _ in reply.calls])
    assert {call.name for call in answer(refused).calls} == {"addGraphEdge", "finish"}


def analyze(
    insight: str, nodes: str, tools: tuple[str, ...] = ANALYSIS
) -> tuple[dict[str, Any], Answer]:
    sections = {"mission": MISSION, "insight": insight, "relevant_nodes": nodes}
    body = request(sections, (*tools, "finish"))
    return body, answer(body)


def test_figures_are_compared_and_cited() -> None:
    _, reply = analyze(
        "Observation: Both have a figure for “Exports”.\nRelevant node ids: n1, n2",
        f"{GHANA}\n{TOGO}",
    )
    (analysis,) = arguments(reply, "addAgentAnalysisNode")
    assert analysis["summary"] == (
        "Of Ghana and Togo, Ghana has the higher reported figure for “Exports”: $25 billion; "
        "Togo has the lower: $2 billion. The higher figure is 12.5 times the lower."
    )
    assert "- Ghana — Exports 2023: $25 billion [n1]" in analysis["content"]
    assert "Ghana: “Exports” rose from $17 billion to $25 billion [n1]." in analysis["content"]
    (link,) = arguments(reply, "addGraphEdge")
    assert (link["type"], link["targetId"]) == ("about", "n1")


@pytest.mark.parametrize(
    ("values", "words"), CASES["comparisons_say_what_is_equal_or_of_other_years"]
)
def test_comparisons_say_what_is_equal_or_of_other_years(
    values: tuple[str, str], words: str
) -> None:
    nodes = "\n".join(
        f'- [n{number}] Country "{name}" {{"Exports": "{value}"}}'
        for number, (name, value) in enumerate(zip(("Ghana", "Togo"), values, strict=True), 1)
    )
    _, reply = analyze("Observation: “Exports”.\nRelevant node ids: n1, n2", nodes)
    assert words in arguments(reply, "addAgentAnalysisNode")[0]["summary"]


def test_shared_edges_are_cited() -> None:
    edges = (
        '- [e3] "Ghana" -exports_partners-> "Mali" {}\n- [e4] "Togo" -exports_partners-> "Mali" {}'
    )
    nodes = '- [n1] Country "Ghana" {}\n- [n2] Country "Togo" {}\n- [n5] Country "Mali" {}'
    _, reply = analyze("Observation: “exports partners” to Mali.", f"{nodes}\n{edges}")
    content = arguments(reply, "addAgentAnalysisNode")[0]["content"]
    assert all(anchor in content for anchor in ("[n1]", "[n2]", "[n5]", "[e3]", "[e4]"))


def test_missing_figures_are_requested_after_one_lookup() -> None:
    tools = (*ANALYSIS, "requestInvestigation")
    body, reply = analyze(
        "Observation: “Exports”.\nRelevant node ids: n1", '- [n1] Country "Ghana" {}', tools
    )
    assert [call.name for call in reply.calls] == ["queryGraph"]
    asked = answer(next_request(body, reply, [{"nodes": [], "edges": []}]))
    assert (
        arguments(asked, "requestInvestigation")[0]["objective"] == "the “Exports” figure of Ghana"
    )


ANALYSES = [
    '- [n7] AgentAnalysis "Exports" {"summary": "Of Ghana and Togo, Ghana has the higher reported figure for “Exports”:'
    ' $25 billion; Togo has the lower: $2 billion.", "content": "- Ghana — Exports: $25 billion [n1]"}',
    '- [n8] AgentAnalysis "Gold" {"summary": "Ghana and Mali each have an edge.", "content": "- Ghana — gold [n1]"}',
]


def advise(analyses: list[str], standing: str = "", rules: str = "") -> Answer:
    sections = {"mission": MISSION, "standing_advice": standing, "analyses": "\n".join(analyses)}
    body = request(sections, (*ADVICE, "finish"))
    body["messages"][0]["content"] += rules
    return answer(body)


def test_advice_needs_two_analyses_of_a_node_and_always_holds() -> None:
    (advice,) = arguments(advise(ANALYSES), "addAgentAdviceNode")
    assert (advice["name"], advice["action"]) == ("Review Ghana first", "HOLD")
    assert "Ghana has the higher reported figure for “Exports”: $25 billion" in advice["summary"]
    assert "[n7]" in advice["content"]
    assert "[n8]" in advice["content"]
    assert "[n1]" not in advice["content"]
    assert advise(ANALYSES[:1]).calls == ()
    assert advise(ANALYSES[:1], rules=" Cite at least one analysis.").calls
    known = '- [n9] HOLD "Review it first" on "Ghana" [n1]; until 2027-01-31, since 2026-11-30'
    assert advise(ANALYSES, known).calls == ()


@pytest.mark.parametrize(
    "mission", [MISSION, "日本の電池メーカーを見守る仕事", "////////////", "x" * 4000]
)
def test_any_mission_gives_a_valid_configuration(mission: str) -> None:
    prompts = answer(request({"mission": mission}, schema={}, name=CONFIGURATION)).text
    configuration = AgentConfiguration.model_validate_json(prompts)
    assert len(set(configuration.prompts.values())) == 6
    AgentTypes.model_validate_json(
        answer(request({"mission": mission}, schema={}, name=TYPES)).text
    )


@pytest.mark.parametrize(
    ("tools", "phase"),
    [
        (ACQUISITION, Phase.KNOWLEDGE_ACQUISITION),
        (CONSTRUCTION, Phase.GRAPH_CONSTRUCTION),
        (ANALYSIS, Phase.ANALYSIS_GENERATION),
        (ADVICE, Phase.ADVICE_GENERATION),
        ((), Phase.CONVERSATION),
    ],
)
def test_the_tools_determine_the_phase(tools: tuple[str, ...], phase: Phase) -> None:
    assert phase_of(ChatRequest(request({}, tools))) is phase


@pytest.mark.parametrize(
    "messages", [None, [1, {"role": 1}], [{"role": "user", "content": [{"text": 3}]}]]
)
@pytest.mark.parametrize("tools", [ACQUISITION, CONSTRUCTION, ANALYSIS, ADVICE, ()])
def test_malformed_messages_are_answered(messages: Any, tools: tuple[str, ...]) -> None:
    assert answer({**request({}, tools), "messages": messages})


def test_questions_on_duplicates_are_answered_in_the_request_of_corrections() -> None:
    node = {"type": "Company", "name": "Trident Ports", "properties": {}, "sentences": ["1.1"]}
    question = 'There is [n7] "Ports Trident". Is it the same? If not, with distinctFrom: ["n7"].'
    other = {**node, "name": "Kesra"}
    asked = f"addGraphNode {json.dumps(node)}\n→ {question}"
    refused = f"{asked}\n\naddGraphNode {json.dumps(other)}\n→ properties.summary is required"
    tools = [
        {"type": "function", "function": {"name": name}} for name in ("addGraphNode", "finish")
    ]
    message = {"role": "user", "content": f"<refused>\n{refused}\n</refused>"}
    answer = construct_answer(ChatRequest({"messages": [message], "tools": tools}))
    first, last = answer.calls
    assert json.loads(first.arguments) == {**node, "sameAs": "n7"}
    assert last.name == "finish"
