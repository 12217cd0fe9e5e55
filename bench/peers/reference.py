"""The calls of the reference iteration as a program without Vigil makes them, about as long as Vigil's.

13 calls of the model and 3 searches: a plan with 3 queries and 2 insights; for each query, a search is asked for, made,
summed up as a document, and written as facts; a conclusion for each insight; advice, or none.
"""

import json
from typing import Any, Final
from uuid import UUID

Json = dict[str, Any]

_SYSTEM: Final = {
    "role": "system",
    "content": "You work for an agent that knows who supplies whom. " * 40,
}
_CONTEXT: Final = "Something is known already. " * 50
_LONG_CONTEXT: Final = _CONTEXT * 3
_TOOL_DESCRIPTION: Final = "It does what its name says, if the evidence is in the page. " * 13
_PLAN_FORMAT: Final = {
    "type": "json_schema",
    "json_schema": {"name": "plan", "schema": {"type": "object", "description": "A plan. " * 200}},
}


def mission(agent_id: UUID) -> str:
    return f"Know who supplies whom. agent={agent_id} anchors={agent_id},{agent_id}"


def plan_request(mission: str) -> Json:
    return _request(f"{mission} {_LONG_CONTEXT}", response_format=_PLAN_FORMAT)


def read_plan(message: Json) -> tuple[list[str], list[str]]:
    """The objectives of the queries, and the observations of the insights."""
    plan = json.loads(message["content"])
    objectives = [query["objective"] for query in plan["queries"]]
    return objectives, [insight["observation"] for insight in plan["insights"]]


def search_request(mission: str, objective: str) -> Json:
    """Requests the call of a search."""
    return _request(f"{mission} {objective} {_CONTEXT}", "tavilySearch", "tavilyExtract")


def read_search(message: Json) -> str:
    query: str = json.loads(message["tool_calls"][0]["function"]["arguments"])["query"]
    return query


def document_request(mission: str, objective: str, message: Json, found: Json) -> Json:
    """Requests a document, after the answer to `search_request` and what the search has found."""
    request = search_request(mission, objective)
    [call] = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)}
    answered = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {**request, "messages": [*request["messages"], answered, result]}


def facts_request(mission: str, objective: str, document: Json) -> Json:
    tools = ("addGraphNode", "addGraphEdge", "createNodeType", "createEdgeType", "queryGraph")
    return _request(f"{mission} {objective} {_CONTEXT} {document['content']}", *tools)


def conclusion_request(mission: str, observation: str) -> Json:
    tools = ("addAgentAnalysisNode", "addGraphEdge", "queryGraph")
    return _request(f"{mission} {observation} {_LONG_CONTEXT}", *tools)


def advice_request(mission: str) -> Json:
    return _request(f"{mission} {_CONTEXT}", "addAgentAdviceNode", "queryGraph")


def _request(prompt: str, *tools: str, **options: Any) -> Json:
    functions = [
        {"name": name, "description": _TOOL_DESCRIPTION, "parameters": {"type": "object"}}
        for name in tools
    ]
    request: Json = {
        "model": "m",
        "messages": [_SYSTEM, {"role": "user", "content": prompt}],
        "max_tokens": 1000,
        **options,
    }
    if functions:
        request["tools"] = [{"type": "function", "function": function} for function in functions]
    return request
