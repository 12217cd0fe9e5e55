"""Calls the graph's tools as the agent loop does."""

from typing import Any

from shared.tools import Json, StateTool
from tests.support.graph.agent_graph import PAGE, AgentGraph

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


async def call(agent_graph: AgentGraph, tool: StateTool[Any], **arguments: Any) -> Json:
    async with agent_graph.database.transaction() as session:
        return await tool.run(session, tool.arguments.model_validate(arguments))


def find_tool(tools: list[StateTool[Any]], name: str) -> StateTool[Any]:
    return next(tool for tool in tools if tool.name == name)
