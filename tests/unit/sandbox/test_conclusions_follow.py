"""The rules of the product accept what the model concludes and advises, over very different documents."""

import json
import re

import pytest

from sandbox.corpus import Corpus, Document, LoadReport
from sandbox.search.index import build_index
from shared.graph.conclusions import rules
from shared.graph.grounding.known import CitedElement
from tests.support.sandbox import battery_corpus, requests
from tests.support.sandbox.simulated_agent import SimulatedAgent

CITED = re.compile(r"\[(?:node|edge):([^\]]+)\]")
MANUAL = (
    "Harborlight keeps packages in a cache. A package is removed when its server stops.",
    "The cache of Harborlight holds 64 packages. It is read by the Beacon Service, which sends packages to servers.",
    "Beacon Service is a daemon that checks packages. Packages that Harborlight has marked are not sent by Beacon Service.",
)
EQUAL = (
    "Alder Group: profile\nAlder Group is a shipping company.\nFleet size 2026: 15 ships",
    "Birch Group: profile\nBirch Group is a shipping company.\nFleet size 2026: 15 ships",
)
CORPORA: dict[str, tuple[str, Corpus | tuple[str, ...]]] = {
    "makers": (battery_corpus.MISSION, battery_corpus.corpus()),
    "manual": ("Watch packages and servers of Harborlight", MANUAL),
    "equal": ("Watch shipping companies and their fleet size", EQUAL),
}


def corpus_of(texts: tuple[str, ...]) -> Corpus:
    pages = (text.partition("\n") for text in texts)
    documents = tuple(
        Document(title, text or title, f"https://corpus.local/{number}")
        for number, (title, _, text) in enumerate(pages)
    )
    return Corpus("texts", documents, LoadReport(len(documents)))


def cited_elements(agent: SimulatedAgent, text: str) -> list[CitedElement]:
    elements = []
    for element_id in dict.fromkeys(CITED.findall(text)):
        if node := agent.nodes.get(element_id):
            elements.append(
                CitedElement(node["type"], (node["name"],), tuple(node["properties"].items()))
            )
        elif edge := agent.edges.get(element_id):
            ends = tuple(agent.nodes[edge[end]]["name"] for end in ("sourceId", "targetId"))
            values = tuple(edge.get("properties", {}).items())
            elements.append(CitedElement(edge["type"], ends, values, is_edge=True))
        else:
            analysis = agent.analyses[element_id]
            values = tuple((key, analysis[key]) for key in ("summary", "content"))
            elements.append(CitedElement("AgentAnalysis", (analysis["name"],), values))
            elements += cited_elements(agent, analysis["content"])
    return elements


def refusals(agent: SimulatedAgent, conclusion: dict[str, str]) -> list[str]:
    cited = cited_elements(agent, conclusion["content"])
    findings = rules.check(conclusion["name"], conclusion, cited, [agent.mission])
    return [
        f"{each.text}: {each.written}: {each.finding.reason}" for each in rules.refused(findings)
    ]


@pytest.mark.parametrize("name", CORPORA)
def test_conclusions_and_advice_follow_from_what_they_cite(name: str) -> None:
    mission, texts = CORPORA[name]
    corpus = texts if isinstance(texts, Corpus) else corpus_of(texts)
    agent = SimulatedAgent(mission, build_index(corpus))
    for _ in range(3):
        agent.iterate()
    assert agent.analyses
    assert [refusals(agent, analysis) for analysis in agent.analyses.values()] == [
        [] for _ in agent.analyses
    ]
    lines = "\n".join(
        f"- [node:{key}] AgentAnalysis {json.dumps(each['name'])} "
        + json.dumps({field: each[field] for field in ("type", "summary", "content")})
        for key, each in agent.analyses.items()
    )
    body = requests.request(
        {"mission": mission, "analyses": lines, "graph_context": agent.context()}, requests.ADVICE
    )
    body["messages"][0]["content"] = "Cite at least one analysis."
    (advice,) = requests.arguments(requests.answer(body), "addAgentAdviceNode")
    assert refusals(agent, advice) == []
    assert advice["action"] == "HOLD"


def test_equal_figures_are_called_equal() -> None:
    agent = SimulatedAgent(CORPORA["equal"][0], build_index(corpus_of(EQUAL)))
    for _ in range(3):
        agent.iterate()
    texts = " ".join(analysis["content"] for analysis in agent.analyses.values())
    assert "have the same reported fleet size: 15 ships" in texts
    assert "highe" not in texts
