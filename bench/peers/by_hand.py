"""`python -m bench.peers.by_hand DATABASE_URL PROVIDERS_URL`: an asyncio program that saves each answer with psycopg.

An iteration that is run again takes the answers that it has saved, and makes the other calls.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from bench.peers import reference
from bench.peers.clients import Clients
from bench.peers.program import Program, parse_program, serve
from bench.peers.reference import Json

POOL_SIZE: Final = 16
_SCHEMA: Final = """
create table if not exists answers (
    iteration_id uuid, step text, answer jsonb not null, answered_at timestamptz not null default now(),
    primary key (iteration_id, step)
)
"""
_LOAD: Final = "select step, answer from answers where iteration_id = %s"
_SAVE: Final = "insert into answers (iteration_id, step, answer) values (%s, %s, %s)"

Pool = AsyncConnectionPool[AsyncConnection[Any]]


class Iteration:
    def __init__(self, pool: Pool, clients: Clients, iteration_id: str, agent_id: UUID) -> None:
        self._pool = pool
        self._clients = clients
        self._id = iteration_id
        self._mission = reference.mission(agent_id)
        self._saved: dict[str, Json] = {}

    async def run(self) -> None:
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(_LOAD, (self._id,))).fetchall()
        self._saved = dict(rows)
        plan = await self._ask("plan", reference.plan_request(self._mission))
        objectives, observations = reference.read_plan(plan)
        await asyncio.gather(*map(self._research, objectives))
        conclusions = [
            self._ask(
                f"conclude {observation}", reference.conclusion_request(self._mission, observation)
            )
            for observation in observations
        ]
        await asyncio.gather(*conclusions)
        await self._ask("advise", reference.advice_request(self._mission))

    async def _research(self, objective: str) -> None:
        mission = self._mission
        message = await self._ask(
            f"choose {objective}", reference.search_request(mission, objective)
        )
        query = reference.read_search(message)
        found = await self._step(f"search {query}", lambda: self._clients.search(query))
        document = await self._ask(
            f"document {objective}",
            reference.document_request(mission, objective, message, found),
        )
        await self._ask(f"facts {objective}", reference.facts_request(mission, objective, document))

    async def _ask(self, step: str, request: Json) -> Json:
        return await self._step(step, lambda: self._clients.ask(request, f"{self._id} {step}"))

    async def _step(self, step: str, call: Callable[[], Awaitable[Json]]) -> Json:
        if step in self._saved:
            return self._saved[step]
        answer = await call()
        async with self._pool.connection() as connection:
            await connection.execute(_SAVE, (self._id, step, Jsonb(answer)))
        return answer


async def main(program: Program) -> None:
    async with AsyncConnectionPool(
        program.database_url, min_size=POOL_SIZE, kwargs={"autocommit": True}
    ) as pool:
        async with pool.connection() as connection:
            await connection.execute(_SCHEMA)
        await serve(
            lambda iteration_id, agent_id: Iteration(
                pool, program.clients, iteration_id, agent_id
            ).run()
        )


if __name__ == "__main__":
    asyncio.run(main(parse_program()))
