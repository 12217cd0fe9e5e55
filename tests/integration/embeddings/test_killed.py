"""A researcher whose process is killed with vectors in its hands: the step ends, and every node has its vector, once."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from shared import derived_events
from shared.database.tables import Iteration, Step
from shared.enums import StepKind, StepStatus
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.embeddings.seeker import Seeker, fill
from tests.support.levers import Sandbox
from tests.support.waiting import until

LLM_CALLS = 4
"""Of the step's two phases. Acquisition searches for nothing, is searched for, and is asked once more; construction
writes nothing, and is asked once more."""
CALLS_BEFORE = LLM_CALLS + 1
"""With the search that is made for it."""
SAID = [
    {"phase": "knowledge_acquisition", "content": "# Nothing new", "times": 2},
    {"phase": "graph_construction", "content": "Nothing to write.", "times": 2},
]


@pytest.mark.parametrize(
    ("point", "heeded", "billed"),
    [
        pytest.param(Failpoint.CALL_UNSENT, False, 1, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_ANSWERED, False, 2, marks=pytest.mark.slow),
        (Failpoint.CALL_ANSWERED, True, 1),
        (Failpoint.CALL_RECORDED, False, 1),
    ],
)
async def test_a_killed_researcher_costs_at_most_its_call_in_flight(
    seeker: Seeker,
    levers: Sandbox,
    bus: Bus,
    tmp_path: Path,
    point: Failpoint,
    *,
    heeded: bool,
    billed: int,
) -> None:
    await fill(seeker.world)
    if heeded:
        levers.heed_keys()
    levers.script(*SAID)
    step_id = await _asked(seeker, bus)
    (tmp_path / point).write_text("SIGKILL")
    for passing in range(CALLS_BEFORE):
        (tmp_path / f"{point}.skip{passing}").write_text("")
    given = {"lease_seconds": 1.0, "resend_after_seconds": 1.0}
    settings = seeker.settings.model_copy(update=given)
    assert await _researcher(settings, tmp_path) == -signal.SIGKILL
    async with running(settings, ["scheduler", "researcher"]):
        await until(lambda: _is_completed(seeker, step_id), what="the step to be completed")
    assert await seeker.vectors() == 2
    [call] = await seeker.calls()
    assert call.answered_at is not None
    assert (levers.billed()["embedding"], levers.billed()["llm"]) == (billed, LLM_CALLS)


async def _asked(seeker: Seeker, bus: Bus) -> UUID:
    """A query's step of the agent's iteration, and somebody has asked for it."""
    step_id = uuid4()
    given = {"objective": "Halden batteries", "reasoning": "", "search_hints": []}
    async with seeker.world.database.transaction() as session:
        iteration = await session.get_one(Iteration, seeker.lease.iteration_id)
        step = Step(
            id=step_id,
            agent_id=seeker.agent.id,
            iteration_id=iteration.id,
            kind=StepKind.QUERY,
            index=0,
            input=given,
            status=StepStatus.PENDING,
        )
        session.add(step)
        await session.flush()
        await session.refresh(step)
        asked = derived_events.iteration_step_event(iteration, step)
    await bus.publish(asked)
    return step_id


async def _is_completed(seeker: Seeker, step_id: UUID) -> bool:
    async with seeker.world.database.transaction() as session:
        return (await session.get_one(Step, step_id)).status == StepStatus.COMPLETED


async def _researcher(settings: Settings, crash_directory: Path) -> int | None:
    """Runs one until it ends; gives its exit code."""
    environment = {
        **os.environ,
        DIRECTORY: str(crash_directory),
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_LEASE_SECONDS": str(settings.lease_seconds),
        "VIGIL_MODEL": settings.model,
        "VIGIL_EMBEDDING_MODEL": str(settings.embedding_model),
        "OPENAI_BASE_URL": str(settings.openai_base_url),
        "TAVILY_BASE_URL": str(settings.tavily_base_url),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.researcher", env=environment
    )
    try:
        return await asyncio.wait_for(process.wait(), 60)
    finally:
        if process.returncode is None:
            process.kill()
