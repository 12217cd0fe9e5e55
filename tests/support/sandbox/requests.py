"""Requests as Vigil sends them to the model."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.http.openai_format import tool_calls
from sandbox.model import ChatRequest, answer_request
from sandbox.model.request import Answer

ACQUISITION = ("tavilySearch", "tavilyExtract", "tavilyResearch")
CONSTRUCTION = (
    "queryGraph",
    "listNodeTypes",
    "listEdgeTypes",
    "createNodeType",
    "createEdgeType",
    "addGraphNode",
    "addGraphEdge",
)
ANALYSIS = ("queryGraph", "addAgentAnalysisNode", "addGraphEdge")
ADVICE = ("queryGraph", "addAgentAdviceNode")
EMPTY_GRAPH = "As of 2026-11-21T22:30:00Z: 0 nodes, 0 edges, 0 node types, 0 edge types, 0 analyses, 0 advice."

Body = dict[str, Any]


def request(
    sections: Mapping[str, str],
    tools: Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    name: str = "",
) -> Body:
    """The body of a chat completion: a system message, and the sections in one user message."""
    text = "\n\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in sections.items())
    body: Body = {
        "model": "sandbox-reader",
        "messages": [
            {"role": "system", "content": "You are part of an agent."},
            {"role": "user", "content": f"{text}\n\nDo it now."},
        ],
    }
    if tools:
        body["tools"] = [
            {"type": "function", "function": {"name": tool, "parameters": {"type": "object"}}}
            for tool in tools
        ]
    if schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": True},
        }
    return body


def answer(body: Body) -> Answer:
    return answer_request(ChatRequest(body))


def next_request(body: Body, reply: Answer, results: Sequence[Mapping[str, Any]]) -> Body:
    """The body of the next round: with the calls of `reply` and their results."""
    calls = tool_calls(f"round {len(body['messages'])}", reply)
    assert len(calls) == len(results)
    call_message = [{"role": "assistant", "content": reply.text or None, "tool_calls": calls}]
    result_messages = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": json.dumps(result, ensure_ascii=False),
        }
        for call, result in zip(calls, results, strict=True)
    ]
    return {**body, "messages": [*body["messages"], *call_message, *result_messages]}


def arguments(reply: Answer, tool: str) -> list[dict[str, Any]]:
    """The arguments of every call of one tool."""
    return [json.loads(call.arguments) for call in reply.calls if call.name == tool]


def numbered(*lines: str) -> str:
    """The lines of a page as tools show them, with the number of each."""
    return "\n".join(f"[1.{number}] {line}" for number, line in enumerate(lines, start=1))


def plan(mission: str, graph_context: str) -> dict[str, Any]:
    """The observer's plan."""
    body = request(
        {"mission": mission, "graph_context": graph_context}, schema={}, name="observer_plan"
    )
    result: dict[str, Any] = json.loads(answer(body).text)
    return result


def query_section(objective: str, *hints: str) -> str:
    hint_lines = "\n".join(f"- {hint}" for hint in hints)
    return f"Objective: {objective}\nReasoning: the mission needs it.\nSearch hints:\n{hint_lines}"
