"""`python -m bench.peers.with_dbos DATABASE_URL PROVIDERS_URL`: the iteration as a workflow of DBOS.

Each call is a step; each query is a workflow of its own, because the steps of one workflow must start in the same order
when it is resumed.
"""

import asyncio
from typing import Final
from uuid import UUID

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.peers import reference
from bench.peers.clients import Clients
from bench.peers.program import Program, parse_program, serve
from bench.peers.reference import Json

POOL_SIZE: Final = 16

clients: Clients
"""Steps are functions of a module; so is what they call."""


@DBOS.step()
async def ask(request: Json, key: str) -> Json:
    return await clients.ask(request, key)


@DBOS.step()
async def search(query: str) -> Json:
    return await clients.search(query)


@DBOS.workflow()
async def research(iteration_id: str, mission: str, objective: str) -> Json:
    key = f"{iteration_id} {objective}"
    message = await ask(reference.search_request(mission, objective), f"{key} choose")
    found = await search(reference.read_search(message))
    request = reference.document_request(mission, objective, message, found)
    document = await ask(request, f"{key} document")
    request = reference.facts_request(mission, objective, document)
    facts: Json = await ask(request, f"{key} write")
    return facts


@DBOS.workflow()
async def iterate(iteration_id: str, mission: str) -> Json:
    plan = await ask(reference.plan_request(mission), f"{iteration_id} plan")
    objectives, observations = reference.read_plan(plan)
    researched = [
        await DBOS.start_workflow_async(research, iteration_id, mission, objective)
        for objective in objectives
    ]
    for workflow in researched:
        await workflow.get_result()
    await asyncio.gather(
        *(
            ask(reference.conclusion_request(mission, observation), f"{iteration_id} {observation}")
            for observation in observations
        )
    )
    advice: Json = await ask(reference.advice_request(mission), f"{iteration_id} advise")
    return advice


async def run(iteration_id: str, agent_id: UUID) -> None:
    """DBOS resumes a workflow that it knows by its id."""
    with SetWorkflowID(iteration_id):
        answer = await iterate(iteration_id, reference.mission(agent_id))
    assert answer["content"], answer


async def main(program: Program) -> None:
    global clients
    clients = program.clients
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": program.database_url,
        "sys_db_pool_size": POOL_SIZE,
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        await serve(run)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(parse_program()))
