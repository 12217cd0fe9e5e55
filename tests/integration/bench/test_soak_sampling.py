"""A sample of a soak run reads the tables and the streams as they are."""

import os

from bench.soak.sampling import Sampler
from shared.agents import contexts
from shared.database.engine import Database
from shared.database.tables import Context
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.factories import make_agent, make_iteration


async def test_a_sample_counts_what_is_stored(database: Database, settings: Settings) -> None:
    await provision_stream(settings)
    agent = await make_agent(database)
    async with Sampler.open(settings, lambda: [("this process", os.getpid())]) as sampler:
        assert (await sampler.sample(0.0)).work.context_bytes is None
        await make_iteration(database, agent)
        text = "what a phase was given"
        stored = contexts.in_full(text)
        async with database.transaction() as session:
            await session.insert(
                Context, agent_id=agent.id, sha256=stored.sha256, depth=0, data=stored.data
            )
        work = (await sampler.sample(1.0)).work
    assert (work.running, work.open_steps, work.context_bytes) == (1, 1, len(text))
