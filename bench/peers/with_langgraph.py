"""`python -m bench.peers.with_langgraph DATABASE_URL PROVIDERS_URL`: the iteration as a graph of LangGraph.

Each call is a node, so that it is saved by itself; queries and insights run in parallel. Durability is `sync`: what has been
answered is saved before the next step of the graph starts.
"""

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, Final, TypedDict
from uuid import UUID

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.peers import reference
from bench.peers.clients import Clients
from bench.peers.program import Program, parse_program, serve
from bench.peers.reference import Json

POOL_SIZE: Final = 16


class State(TypedDict, total=False):
    iteration: str
    mission: str
    observations: list[str]
    found: Annotated[list[Json], operator.add]
    documents: Annotated[list[Json], operator.add]
    facts: Annotated[list[Json], operator.add]
    conclusions: Annotated[list[Json], operator.add]
    advice: Json


class Part(TypedDict, total=False):
    """The input of a node that works on one query or insight."""

    iteration: str
    mission: str
    text: str
    """The objective of the query, or the observation of the insight."""
    message: Json
    found: Json


class Nodes:
    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def plan(self, state: State) -> Any:
        request = reference.plan_request(state["mission"])
        message = await self._clients.ask(request, f"{state['iteration']} plan")
        objectives, observations = reference.read_plan(message)
        parts = [_part(state, objective) for objective in objectives]
        return Command(
            update={"observations": observations}, goto=[Send("choose", part) for part in parts]
        )

    async def choose(self, part: Part) -> Any:
        message = await self._ask(part, "choose", reference.search_request)
        return Command(goto=Send("search", {**part, "message": message}))

    async def search(self, part: Part) -> Any:
        found = await self._clients.search(reference.read_search(part["message"]))
        return Command(update={"found": [found]}, goto=Send("document", {**part, "found": found}))

    async def document(self, part: Part) -> Any:
        message = await self._ask(
            part, "document", reference.document_request, part["message"], part["found"]
        )
        goto = Send("write", {**_part(part, part["text"]), "message": message})
        return Command(update={"documents": [message]}, goto=goto)

    async def write(self, part: Part) -> State:
        message = await self._ask(part, "write", reference.facts_request, part["message"])
        return {"facts": [message]}

    async def gather(self, state: State) -> Any:
        """Starts the insights when all queries are written."""
        parts = [_part(state, observation) for observation in state["observations"]]
        return Command(goto=[Send("conclude", part) for part in parts])

    async def conclude(self, part: Part) -> State:
        return {"conclusions": [await self._ask(part, "conclude", reference.conclusion_request)]}

    async def advise(self, state: State) -> State:
        request = reference.advice_request(state["mission"])
        return {"advice": await self._clients.ask(request, f"{state['iteration']} advise")}

    async def _ask(
        self, part: Part, step: str, request: Callable[..., Json], *earlier: Json
    ) -> Json:
        key = f"{part['iteration']} {step} {part['text']}"
        return await self._clients.ask(request(part["mission"], part["text"], *earlier), key)


def _part(state: State | Part, text: str) -> Part:
    return {"iteration": state["iteration"], "mission": state["mission"], "text": text}


def compile_graph(clients: Clients, saver: AsyncPostgresSaver) -> Any:
    nodes = Nodes(clients)
    graph = StateGraph(State)
    graph.add_node("plan", nodes.plan, destinations=("choose",))
    graph.add_node("choose", nodes.choose, destinations=("search",))
    graph.add_node("search", nodes.search, destinations=("document",))
    graph.add_node("document", nodes.document, destinations=("write",))
    graph.add_node("write", nodes.write)
    graph.add_node("gather", nodes.gather, destinations=("conclude",))
    graph.add_node("conclude", nodes.conclude)
    graph.add_node("advise", nodes.advise)
    graph.add_edge(START, "plan")
    graph.add_edge("write", "gather")
    graph.add_edge("conclude", "advise")
    graph.add_edge("advise", END)
    return graph.compile(checkpointer=saver)


async def main(program: Program) -> None:
    # The connections are configured as the checkpointer's documentation says.
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        program.database_url, min_size=POOL_SIZE, max_size=POOL_SIZE, kwargs=options
    ) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        graph = compile_graph(program.clients, saver)

        async def run(iteration_id: str, agent_id: UUID) -> None:
            config = {"configurable": {"thread_id": iteration_id}}
            is_new = await saver.aget(config) is None
            start = {"iteration": iteration_id, "mission": reference.mission(agent_id)}
            state = await graph.ainvoke(start if is_new else None, config, durability="sync")
            assert len(state["facts"]) == 3, state
            assert state["advice"], state

        await serve(run)


if __name__ == "__main__":
    asyncio.run(main(parse_program()))
