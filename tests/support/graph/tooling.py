"""Calling the graph's tools as the loop does."""

from typing import Any

from shared.tools import Json, StateTool
from tests.support.graph.world import PAGE, World

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


async def call(world: World, tool: StateTool[Any], **arguments: Any) -> Json:
    async with world.database.transaction() as session:
        return await tool.run(session, tool.arguments.model_validate(arguments))


def named(offered: list[StateTool[Any]], name: str) -> StateTool[Any]:
    return next(tool for tool in offered if tool.name == name)
