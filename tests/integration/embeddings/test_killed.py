"""A researcher killed while it embeds nodes: the step ends, and every node gets its vector once."""

import asyncio
import os
import signal
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from shared import derived_events
from shared.database.tables import Iteration, Step
from shared.enums import StepKind, StepStatus
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations, steps
from tests.support.embeddings.embedding_case import EmbeddingCase, fill
from tests.support.failpoints import arm
from tests.support.running_services import running_services
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import add
from tests.support.waiting import wait_until
from tests.support.warm_processes import start_python

LLM_CALLS = 4
"""Of the step's two phases. Acquisition makes no search, so one is made for it, and it is asked once more; construction
writes nothing, and is asked once more."""
CALLS_BEFORE = LLM_CALLS + 1
"""With the search that is made on behalf of the model."""
SCRIPT = [
    {"phase": "knowledge_acquisition", "content": "# Nothing new", "times": 2},
    {"phase": "graph_construction", "content": "Nothing to write.", "times": 2},
]


@pytest.mark.parametrize(
    ("point", "honors_keys", "billed"),
    [
        pytest.param(Failpoint.CALL_UNSENT, False, 1, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_ANSWERED, False, 2, marks=pytest.mark.slow),
        pytest.param(Failpoint.CALL_ANSWERED, True, 1, marks=pytest.mark.slow),
        (Failpoint.CALL_RECORDED, False, 1),
    ],
)
async def test_a_killed_researcher_costs_at_most_its_call_in_flight(
    embedding_case: EmbeddingCase,
    sandbox_control: Sandbox,
    bus: Bus,
    tmp_path: Path,
    point: Failpoint,
    *,
    honors_keys: bool,
    billed: int,
) -> None:
    await fill(embedding_case.agent_graph)
    if honors_keys:
        sandbox_control.heed_keys()
    sandbox_control.script(*SCRIPT)
    step_id = await _request_query_step(embedding_case, bus)
    arm(tmp_path, point, skip=CALLS_BEFORE)
    changes = {"lease_seconds": 1.0, "resend_after_seconds": 1.0, "model_tool_choice": "never"}
    settings = embedding_case.settings.model_copy(update=changes)
    assert await _researcher(settings, tmp_path) == -signal.SIGKILL
    async with running_services(settings, ["scheduler", "researcher"]):
        await wait_until(
            lambda: _is_completed(embedding_case, step_id), what="the step to be completed"
        )
    assert await embedding_case.vectors() == 2
    [call] = await embedding_case.calls()
    assert call.answered_at is not None
    assert (sandbox_control.billed()["embedding"], sandbox_control.billed()["llm"]) == (
        billed,
        LLM_CALLS,
    )


async def _request_query_step(embedding_case: EmbeddingCase, bus: Bus) -> UUID:
    """Adds a query step to the agent's iteration and publishes its request."""
    step_id = uuid4()
    query = {"objective": "Halden batteries", "reasoning": "", "search_hints": []}
    async with embedding_case.agent_graph.database.transaction() as session:
        iteration = await session.get_one(Iteration, embedding_case.lease.iteration_id)
        step = Step(
            id=step_id,
            agent_id=embedding_case.agent.id,
            iteration_id=iteration.id,
            kind=StepKind.QUERY,
            index=0,
            input=query,
            status=StepStatus.PENDING,
            first_requested_at=await iterations.database_time(session),
        )
        await add(session, step)
        event = derived_events.later_step_event(await steps.get_step(session, step_id))
    await bus.publish(event)
    return step_id


async def _is_completed(embedding_case: EmbeddingCase, step_id: UUID) -> bool:
    async with embedding_case.agent_graph.database.transaction() as session:
        return (await session.get_one(Step, step_id)).status == StepStatus.COMPLETED


async def _researcher(settings: Settings, crash_directory: Path) -> int | None:
    """Runs a researcher until it ends; returns its exit code."""
    environment = {
        **os.environ,
        DIRECTORY: str(crash_directory),
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_LEASE_SECONDS": str(settings.lease_seconds),
        "VIGIL_MODEL": settings.model,
        "VIGIL_MODEL_TOOL_CHOICE": settings.model_tool_choice,
        "VIGIL_EMBEDDING_MODEL": str(settings.embedding_model),
        "OPENAI_BASE_URL": str(settings.openai_base_url),
        "TAVILY_BASE_URL": str(settings.tavily_base_url),
    }
    process = await start_python("-m", "services.researcher", env=environment)
    try:
        return await asyncio.wait_for(process.wait(), 60)
    finally:
        if process.returncode is None:
            process.kill()
