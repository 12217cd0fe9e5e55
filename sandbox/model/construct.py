"""The graph construction phase: figures of a document become properties, and lists with a known label become edges."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.model.graph_view import OWN_TYPES, GraphView
from sandbox.model.request import Answer, ChatRequest, Exchange, ToolCall
from sandbox.model.sheets import COUNTRY, RELATIONS, SAME, SUBJECT, TYPES, Relation
from sandbox.text.labels import LabelLine, parse_label, subject_of
from sandbox.text.tokens import fold, shorten, stem, words

HEADING = re.compile(r"^## (?P<title>.+)\nSource: (?P<url>\S+)$", re.MULTILINE)
NUMBERED = re.compile(r"^\[(?P<page>\d+)\.(?P<sentence>\d+)\] (?P<text>.+)$", re.MULTILINE)
COUNTRY_PATH = "/countries/"
NOT_WORD = re.compile(r"[^a-z0-9]+")
MAX_NODES = 20
MAX_FIGURES = 10
"""The most figures written to a node from one document. Each is an entry of evidence."""
MAX_ENTRIES = 5
"""The most entries of a list that become edges."""
MAX_SUMMARY_CHARS = 200
MAX_TRIES = 2
"""How often a refused edge is added: its ends may have been refused too."""
NODE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string", "description": "One sentence on what this is."}},
    "required": ["summary"],
    "additionalProperties": {
        "type": ["string", "number"],
        "description": "Figures by their label.",
    },
}

Place = tuple[int, int]
"""The number of a page, and that of the sentence."""


@dataclass(slots=True)
class PlannedNode:
    type: str
    name: str
    properties: dict[str, tuple[str, Place]] = field(default_factory=dict)
    """Each value with the sentence that states it."""

    def call(self) -> ToolCall:
        by_place: dict[Place, list[str]] = {}
        for name, (_, place) in self.properties.items():
            by_place.setdefault(place, []).append(name)
        evidence: dict[str, Any] = {
            "evidence": [
                {"page": page, "sentences": [sentence], "properties": names}
                for (page, sentence), names in by_place.items()
            ]
        }
        if len(by_place) == 1:
            evidence = {"sentences": [_number(place) for place in by_place]}
        properties = {name: value for name, (value, _) in self.properties.items()}
        return ToolCall.of(
            "addGraphNode", type=self.type, name=self.name, properties=properties, **evidence
        )


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    type: str
    source: str
    target: str
    figure: str
    place: Place


@dataclass(slots=True)
class Plan:
    """By folded name, what a document says of each subject; and its relations."""

    nodes: dict[str, PlannedNode] = field(default_factory=dict)
    edges: list[PlannedEdge] = field(default_factory=list)


def construct(request: ChatRequest) -> Answer:
    """Types, nodes and edges in one answer; then what was refused, with the answers to questions on duplicates."""
    if refused := request.section("refused"):
        return _correct(request, refused)
    plan = make_plan(request)
    if not plan.nodes:
        nothing = "The document has no labelled figures, and no lists to write."
        return Answer(nothing, request.finish_call)
    questions = [
        exchange
        for exchange in request.exchanges
        if exchange.name == "addGraphNode" and "distinctFrom" in exchange.error
    ]
    decisions = {fold(str(each.arguments.get("name"))): _decision(each) for each in questions}
    renamed = {key: str(each["sameAs"]) for key, each in decisions.items() if "sameAs" in each}
    calls = [
        *_type_calls(request, plan),
        *(node.call() for node in plan.nodes.values()),
        *(
            ToolCall.of("addGraphNode", **{**each.arguments, **_decision(each)})
            for each in questions
        ),
        *(_edge_call(edge, renamed) for edge in plan.edges),
    ]
    tries: Counter[str] = Counter()
    done: set[str] = set()
    for exchange in request.exchanges:
        identity = _identity(exchange.name, exchange.arguments)
        tries[identity] += 1
        if not exchange.error:
            done.add(identity)
    open_calls = []
    for call in calls:
        identity = _identity(call.name, json.loads(call.arguments))
        most = MAX_TRIES if call.name == "addGraphEdge" else 1
        is_open = identity not in done and tries[identity] < most
        if is_open and call.name in request.callable_tools:
            open_calls.append(call)
    if not open_calls:
        written = "The labelled figures and lists of the document are written."
        return Answer("\n".join([written, *request.refusals]))
    return Answer(calls=(*open_calls, *request.finish_call))


REFUSED = re.compile(r"^addGraphNode (?P<arguments>\{.*\})\n→ (?P<error>.*)$", re.MULTILINE)


def _correct(request: ChatRequest, refused: str) -> Answer:
    """Answers the questions on duplicates, and leaves out what else was refused."""
    calls = []
    for match in REFUSED.finditer(refused):
        question = Exchange(
            "addGraphNode", json.loads(match["arguments"]), {"error": match["error"]}
        )
        if "distinctFrom" in question.error:
            calls.append(
                ToolCall.of("addGraphNode", **{**question.arguments, **_decision(question)})
            )
    return Answer(calls=(*calls, *request.finish_call))


def make_plan(request: ChatRequest) -> Plan:
    """Plans the nodes and edges that the document states, under the types and names of existing nodes."""
    document = request.section("document")
    view = GraphView(request.section("graph_context"), request.section("known_nodes"))
    known = {key: node for key, node in view.by_name.items() if node.type not in OWN_TYPES}
    plan = Plan()

    def node(name: str, kind: str) -> PlannedNode:
        existing = known.get(fold(name))
        made = PlannedNode(existing.type, existing.name) if existing else PlannedNode(kind, name)
        return plan.nodes.setdefault(fold(name), made)

    for name, kind, line, place in _labelled_lines(document):
        is_overview = line.label.lower().endswith("overview")
        is_relation = edge_type(line.key) in RELATIONS and line.entries
        is_full = fold(name) not in plan.nodes and len(plan.nodes) >= MAX_NODES
        if is_full or not (line.figure or is_overview or is_relation):
            continue
        subject = node(name, kind)
        if is_overview:
            subject.properties["summary"] = _short(f"{subject.name}: {line.value}"), place
        elif fold(name) not in known:
            said = _short(f"{subject.name} — {line.label}: {line.value}")
            subject.properties.setdefault("summary", (said, place))
        if line.figure and len(subject.properties) < MAX_FIGURES:
            subject.properties.setdefault(line.label, (line.figure, place))
    for name, kind, line, place in _labelled_lines(document):
        relation = RELATIONS.get(edge_type(line.key))
        subject = plan.nodes.get(fold(name), PlannedNode(kind, name))
        if relation is None:
            continue
        for edge in _entries(line, relation, subject, place):
            target = fold(edge.target)
            if target not in known and target not in plan.nodes:
                if len(plan.nodes) >= MAX_NODES:
                    break
                beside = f" ({edge.figure})" if edge.figure else ""
                said = f"Listed under “{line.label}” for {subject.name}{beside}."
                entry = node(edge.target, relation.target_type or subject.type)
                entry.properties["summary"] = _short(said), place
            plan.edges.append(edge)
    plan.nodes = {key: each for key, each in plan.nodes.items() if each.properties}
    return plan


def _labelled_lines(document: str) -> Iterator[tuple[str, str, LabelLine, Place]]:
    """Yield each labelled line with its subject and the subject's type."""
    headings = list(HEADING.finditer(document))
    ends = [heading.start() for heading in headings[1:]] + [len(document)]
    for heading, end in zip(headings, ends, strict=False):
        kind = COUNTRY if COUNTRY_PATH in heading["url"] else SUBJECT
        for match in NUMBERED.finditer(document, heading.end(), end):
            if line := parse_label(match["text"]):
                name = line.subject or subject_of(heading["title"])
                yield name, kind, line, (int(match["page"]), int(match["sentence"]))


def _entries(
    line: LabelLine, relation: Relation, subject: PlannedNode, place: Place
) -> Iterator[PlannedEdge]:
    for entry in line.entries[:MAX_ENTRIES]:
        # A name in small letters is no peer of a subject, but a remark.
        if fold(entry.name) != fold(subject.name) and (
            relation.target_type != SAME or entry.name[0].isupper()
        ):
            yield PlannedEdge(edge_type(line.key), subject.name, entry.name, entry.figure, place)


def edge_type(label: str) -> str:
    """A label as an edge type: `Exports - partners` gives `exports_partners`."""
    return "_".join(part for part in NOT_WORD.split(label.lower()) if part)


def _short(text: str) -> str:
    return shorten(text, MAX_SUMMARY_CHARS)


def _number(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


def _type_calls(request: ChatRequest, plan: Plan) -> Iterator[ToolCall]:
    """Create the types that the context does not list."""
    view = GraphView(request.section("graph_context"))
    known = {
        line.removeprefix("- ").partition(":")[0]
        for heading in ("node types", "edge types")
        for line in view.lines(heading)
    }
    for kind, node in {node.type: node for node in reversed(plan.nodes.values())}.items():
        if kind not in known:
            yield ToolCall.of(
                "createNodeType",
                name=kind,
                description=TYPES.get(kind, f"Something like {node.name}."),
                propertiesSchema=NODE_SCHEMA,
                exampleProperties={"summary": f"{node.name} has a fact sheet."},
                justification=f"No existing node type fits {node.name}.",
            )
    for name in sorted({edge.type for edge in plan.edges} - known):
        yield ToolCall.of(
            "createEdgeType",
            name=name,
            description=f"The source {RELATIONS[name].words} the target, as a fact sheet lists it.",
            justification="No existing edge type fits the label of the list.",
        )


def _edge_call(edge: PlannedEdge, renamed: Mapping[str, str]) -> ToolCall:
    return ToolCall.of(
        "addGraphEdge",
        type=edge.type,
        sourceId=renamed.get(fold(edge.source), edge.source),
        targetId=renamed.get(fold(edge.target), edge.target),
        properties={"figure": edge.figure} if edge.figure else None,
        sentences=[_number(edge.place)],
    )


CANDIDATE = re.compile(r'\[(?:node:)?([0-9a-f-]{36}|n\d+)\] ("(?:[^"\\]|\\.)*")')


def _decision(question: Exchange) -> dict[str, Any]:
    """A candidate is the same if its name has the same words, in any order."""
    candidates = CANDIDATE.findall(question.error)
    spelling = str(question.arguments.get("name"))
    for node_id, quoted in candidates:
        name = str(json.loads(quoted))
        if set(map(stem, words(name))) == set(map(stem, words(spelling))):
            return {"sameAs": node_id}
    return {"distinctFrom": [node_id for node_id, _ in candidates]}


def _identity(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"
