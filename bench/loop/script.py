"""The reference iteration, as its model and its search answer it.

The Observer plans 3 queries and 2 insights with one call. Each query takes 2 calls and a search to find out, and 2 calls to
write 4 nodes and 3 edges; each insight takes 2 calls to write an analysis and tie it to 2 nodes; the Adviser takes one
and advises nothing. In all 18 calls of the model, 3 of the search, 12 nodes, 13 edges, 2 analyses.

Whatever is asked tells by itself what the answer is: nothing is remembered between two calls.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from shared.database import ids
from shared.enums import ANALYSIS_TYPE

QUERIES: Final = 3
INSIGHTS: Final = 2
NODES_OF_A_QUERY: Final = 4
MODEL_CALLS: Final = 1 + 4 * QUERIES + 2 * INSIGHTS + 1
SEARCHES: Final = QUERIES
NODE_TYPE: Final = "Company"
EDGE_TYPE: Final = "supplies"

_AGENT: Final = re.compile(r"agent=([0-9a-f-]{36}) anchors=([0-9a-f-]{36}),([0-9a-f-]{36})")
_KEY: Final = re.compile(r"key=([0-9a-f]{16})")
_LETTERS: Final = str.maketrans("0123456789abcdef", "bdfglmnprstvzaio")

Json = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """The agent for which all is answered."""

    agent_id: UUID
    anchors: tuple[UUID, UUID]
    """Nodes that its graph begins with, on which its insights rest."""

    @property
    def mission(self) -> str:
        first, second = self.anchors
        return f"Know who supplies whom. agent={self.agent_id} anchors={first},{second}"

    @classmethod
    def within(cls, text: str) -> "Reference":
        """That of whose mission `text` tells."""
        found = _AGENT.search(text)
        assert found is not None, "what is asked tells no mission"
        agent_id, first, second = map(UUID, found.groups())
        return cls(agent_id, (first, second))


@dataclass(frozen=True)
class Query:
    key: str
    """16 digits, which tell it from every other."""

    @classmethod
    def within(cls, text: str) -> "Query":
        found = _KEY.search(text)
        assert found is not None, "what is asked tells no key"
        return cls(found[1])

    @property
    def url(self) -> str:
        return f"https://pages.example/{self.key}"

    @property
    def names(self) -> list[str]:
        return [name_of(self.key, place) for place in range(NODES_OF_A_QUERY)]

    @property
    def page(self) -> Json:
        """One result of a search: a sentence for each node and edge, and some more."""
        rest = [f"Nothing of note happened at {name} besides." for name in self.names]
        text = " ".join([*map(summary_of, self.names), *self.supplies, *rest])
        return {"title": f"On {self.names[0]}", "url": self.url, "content": text}

    @property
    def supplies(self) -> list[str]:
        """What is said of each edge."""
        first, *others = self.names
        return [f"{first} supplies {other} with parts." for other in others]


def name_of(key: str, place: int) -> str:
    """Three words that no other name is like."""
    digits = hashlib.sha256(f"{key}/{place}".encode()).hexdigest().translate(_LETTERS)
    return " ".join(digits[at : at + 7].capitalize() for at in (0, 7, 14))


def summary_of(name: str) -> str:
    return f"{name} makes parts in {len(name)} countries."


def plan(key: str) -> Json:
    """The Observer's answer; `key` tells it from every other."""
    return {
        "queries": [
            {
                "objective": f"Find out whom the maker key={_derived(key, place)} supplies",
                "reasoning": "Who supplies whom is the mission.",
                "searchHints": [f"suppliers {_derived(key, place)}"],
                "answers": [],
            }
            for place in range(QUERIES)
        ],
        "insights": [
            {
                "observation": f"The makers move together as of key={_derived(key, QUERIES + place)}",
                "relevantNodeIds": [],
                "synthesisDirection": "Whether one follows the other.",
            }
            for place in range(INSIGHTS)
        ],
    }


def plan_for(reference: Reference, key: str) -> Json:
    planned = plan(key)
    for insight in planned["insights"]:
        insight["relevantNodeIds"] = [str(each) for each in reference.anchors]
    return planned


def searches(query: Query) -> list[Json]:
    """What knowledge acquisition calls first."""
    return [_call("tavilySearch", query=f"whom the maker key={query.key} supplies", maxResults=5)]


def document(query: Query) -> str:
    """What it answers then."""
    page = query.page
    return f"# {page['title']}\n\nSource: {page['url']}\n\n{page['content']}"


def writes(reference: Reference, query: Query) -> list[Json]:
    """What graph construction calls: all nodes and edges at once, for their ids are known."""
    nodes = [
        _call(
            "addGraphNode",
            type=NODE_TYPE,
            name=name,
            properties={"summary": summary_of(name), "countries": len(name)},
            evidence=[{"sourceUrl": query.url, "quote": summary_of(name)}],
        )
        for name in query.names
    ]
    first, *others = (ids.node_id(reference.agent_id, NODE_TYPE, name) for name in query.names)
    edges = [
        _call(
            "addGraphEdge",
            type=EDGE_TYPE,
            sourceId=str(first),
            targetId=str(other),
            properties={"what": "parts"},
            evidence=[{"sourceUrl": query.url, "quote": said}],
        )
        for other, said in zip(others, query.supplies, strict=True)
    ]
    return nodes + edges


def concludes(reference: Reference, key: str) -> list[Json]:
    """What an Analyzer calls."""
    first, second = reference.anchors
    name = f"What moves {name_of(key, 0)}"
    analysis_id = ids.node_id(reference.agent_id, ANALYSIS_TYPE, name)
    return [
        _call(
            "addAgentAnalysisNode",
            name=name,
            type="pattern",
            summary=f"The makers move together, as of {key}.",
            content=f"One of them [node:{first}] follows the other [node:{second}], as of {key}.",
            confidence=0.7,
        ),
        *(
            _call("addGraphEdge", type="about", sourceId=str(analysis_id), targetId=str(target))
            for target in (first, second)
        ),
    ]


def arguments_of(calls: Sequence[Json]) -> list[Json]:
    return [json.loads(call["function"]["arguments"]) for call in calls]


def _derived(key: str, place: int) -> str:
    return hashlib.sha256(f"{key}:{place}".encode()).hexdigest()[:16]


def _call(name: str, /, **arguments: Any) -> Json:
    return {"function": {"name": name, "arguments": json.dumps(arguments)}}
