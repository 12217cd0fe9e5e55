"""A simulated graph and search that execute the model's tool calls, for tests of whole iterations."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from jsonschema import Draft202012Validator

from sandbox.model.request import ToolCall
from sandbox.search import SearchIndex, SearchQuery
from tests.support.sandbox import requests

MAX_ROUNDS = 10
Json = dict[str, Any]


@dataclass
class SimulatedAgent:
    """Stores written elements, and rejects the calls that Vigil rejects."""

    mission: str
    index: SearchIndex
    node_types: dict[str, Json] = field(default_factory=dict)
    edge_types: dict[str, Json] = field(default_factory=dict)
    nodes: dict[str, Json] = field(default_factory=dict)
    edges: dict[str, Json] = field(default_factory=dict)
    analyses: dict[str, Json] = field(default_factory=dict)
    objectives: list[str] = field(default_factory=list)
    missing_data: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    calls: int = 0

    def iterate(self) -> Json:
        """Run one iteration; returns the plan."""
        plan = requests.plan(self.mission, self.context())
        for query in plan["queries"]:
            self._research(query)
        for insight in plan["insights"]:
            self._analyze(insight)
        return plan

    def _research(self, query: Json) -> None:
        query_text = requests.query_section(query["objective"], *query["searchHints"])
        self.objectives.append(query["objective"])
        sections = {"mission": self.mission, "query": query_text, "graph_context": self.context()}
        document = self.converse(sections, requests.ACQUISITION)
        self.converse({**sections, "document": document}, requests.CONSTRUCTION)

    def _analyze(self, insight: Json) -> None:
        ids = insight["relevantNodeIds"]
        insight_text = (
            f"Observation: {insight['observation']}\nSynthesis direction: {insight['synthesisDirection']}\n"
            f"Relevant node ids: {', '.join(ids)}"
        )
        lines = [self._node_line(element_id) for element_id in ids] + [
            self._edge_line(element_id) for element_id in self.edges
        ]
        sections = {
            "mission": self.mission,
            "insight": insight_text,
            "relevant_nodes": "\n".join(lines),
            "graph_context": self.context(),
        }
        reply = self.converse(sections, requests.ANALYSIS)
        self.missing_data += [
            line[9:] for line in reply.splitlines() if line.startswith("MISSING: ")
        ]

    def converse(self, sections: Json, tools: Sequence[str]) -> str:
        """Run the tool loop of one phase; returns the final text."""
        body = requests.request(sections, tools)
        for _ in range(MAX_ROUNDS):
            self.calls += 1
            reply = requests.answer(body)
            if not reply.calls:
                return reply.text
            body = requests.next_request(body, reply, [self.call(call) for call in reply.calls])
        raise AssertionError(f"the tool loop did not end after {MAX_ROUNDS} rounds")

    def call(self, call: ToolCall) -> Json:
        """Execute a tool call and return its result."""
        result: Json = getattr(self, f"_{call.name}")(**json.loads(call.arguments))
        if "error" in result:
            self.refusals.append(f"{call.name}: {result['error']}")
        return result

    def context(self) -> str:
        """The text of `<graph_context>`."""
        lines = [
            f"As of 2026-11-21T22:30:00Z: {len(self.nodes)} nodes, {len(self.edges)} edges, {len(self.node_types)} node "
            f"types, {len(self.edge_types)} edge types, {len(self.analyses)} analyses, 0 advice."
        ]
        lines += [
            "## Edge types",
            *(f"- {name}: what it says (1 edges)" for name in self.edge_types),
        ]
        lines += [
            "## Newest nodes",
            *(self._node_line(node_id) for node_id in reversed(self.nodes)),
        ]
        lines += [
            "## Newest edges",
            *(self._edge_line(edge_id) for edge_id in reversed(self.edges)),
        ]
        lines += ["## Analyses"]
        lines += [
            f"- [node:{analysis_id}] {analysis['type']} {json.dumps(analysis['name'])}: {analysis['summary']}"
            for analysis_id, analysis in self.analyses.items()
        ]
        lines += ["## Open investigation requests"]
        lines += [f"- [request:{uuid5(NAMESPACE_URL, text)}] {text}" for text in self.missing_data]
        lines += ["## Recently asked", *(f"- iteration 1: {text}" for text in self.objectives)]
        return "\n".join(lines)

    def _node_line(self, node_id: str) -> str:
        node = self.nodes[node_id]
        properties = json.dumps(node["properties"], ensure_ascii=False)
        return f"- [node:{node_id}] {node['type']} {json.dumps(node['name'], ensure_ascii=False)} {properties}"

    def _edge_line(self, edge_id: str) -> str:
        edge = self.edges[edge_id]
        source, target = (self.nodes[edge[end]]["name"] for end in ("sourceId", "targetId"))
        return f'- [edge:{edge_id}] "{source}" -{edge["type"]}-> "{target}"'

    def _tavilySearch(self, query: str, maxResults: int = 5) -> Json:  # noqa: N802, N803 - as the model calls it
        hits = self.index.search(SearchQuery(query, maxResults))
        return {
            "results": [
                {
                    "title": hit.document.title,
                    "url": hit.document.url,
                    "content": hit.passage,
                    "published_date": str(hit.document.published or ""),
                    "score": hit.score,
                }
                for hit in hits
            ]
        }

    def _tavilyExtract(self, urls: list[str]) -> Json:  # noqa: N802 - as the model calls it
        pages = [(url, self.index.document(url)) for url in urls]
        return {
            "results": [{"url": url, "content": page.text} for url, page in pages if page],
            "failed": [],
        }

    def _queryGraph(self, text: str = "", **_: Any) -> Json:  # noqa: N802 - as the model calls it
        matches = [
            (key, node) for key, node in self.nodes.items() if text.lower() in node["name"].lower()
        ]
        return {"nodes": [{"id": key, **node} for key, node in matches], "edges": []}

    def _listNodeTypes(self) -> Json:  # noqa: N802 - as the model calls it
        return {"nodeTypes": list(self.node_types.values())}

    def _listEdgeTypes(self) -> Json:  # noqa: N802 - as the model calls it
        return {"edgeTypes": list(self.edge_types.values())}

    def _createNodeType(self, **node_type: Any) -> Json:  # noqa: N802 - as the model calls it
        Draft202012Validator(node_type["propertiesSchema"]).validate(node_type["exampleProperties"])
        self.node_types[node_type["name"]] = node_type
        return {"name": node_type["name"], "created": True}

    def _createEdgeType(self, **edge_type: Any) -> Json:  # noqa: N802 - as the model calls it
        self.edge_types[edge_type["name"]] = edge_type
        return {"name": edge_type["name"], "created": True}

    def _addGraphNode(  # noqa: N802 - as the model calls it
        self,
        type: str,  # noqa: A002
        name: str,
        properties: Json,
        evidence: list[Json],
    ) -> Json:
        if type not in self.node_types:
            return {"error": f"There is no node type {type}."}
        if properties.keys() - {
            property_name
            for entry in evidence
            for property_name in entry.get("properties", properties)
        }:
            return {"error": "No evidence for some of it."}
        if not all(self._is_quoted(entry) for entry in evidence):
            return {"error": "The quote does not stand there."}
        key = str(uuid5(NAMESPACE_URL, f"{type}/{name}"))
        merged = {**self.nodes.get(key, {"properties": {}})["properties"], **properties}
        Draft202012Validator(self.node_types[type]["propertiesSchema"]).validate(merged)
        created = key not in self.nodes
        old_evidence = self.nodes.get(key, {"evidence": []})["evidence"]
        self.nodes[key] = {
            "type": type,
            "name": name,
            "properties": merged,
            "evidence": [*old_evidence, *evidence],
        }
        return {"nodeId": key, "created": created}

    def _is_quoted(self, evidence: Json) -> bool:
        page = self.index.document(evidence["sourceUrl"])
        return page is not None and evidence["quote"] in f"{page.title}\n{page.text}"

    def _addGraphEdge(self, **edge: Any) -> Json:  # noqa: N802 - as the model calls it
        if edge["type"] not in self.edge_types or not {edge["sourceId"], edge["targetId"]} <= set(
            self.nodes
        ):
            return {"error": "There is no such edge type or node."}
        is_conclusion = edge["sourceId"] in self.analyses
        if not is_conclusion and not all(self._is_quoted(entry) for entry in edge["evidence"]):
            return {"error": "The quote does not stand there."}
        key = str(uuid5(NAMESPACE_URL, f"{edge['type']}/{edge['sourceId']}/{edge['targetId']}"))
        created = key not in self.edges
        self.edges[key] = edge
        return {"edgeId": key, "created": created}

    def _addAgentAnalysisNode(self, **analysis: Any) -> Json:  # noqa: N802 - as the model calls it
        if analysis["name"] in {other["name"] for other in self.analyses.values()}:
            return {"error": "The name is taken."}
        key = str(uuid5(NAMESPACE_URL, f"AgentAnalysis/{analysis['name']}"))
        self.analyses[key] = analysis
        return {"nodeId": key}
