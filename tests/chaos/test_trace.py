"""One trace for one iteration, across all services, although a researcher is killed in the middle of it."""

import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.tables import Iteration
from shared.telemetry.tracing import trace_id_of
from tests.chaos.conftest import open_runner
from tests.support import traces
from tests.support.chaos.installation import HASTY, running_installation
from tests.support.chaos.mission import INSIGHTS, LLM_CALLS, QUERIES, SEARCHES
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.notifier.rows import make_webhook
from tests.support.traces import Collector, ReceivedSpan
from tests.support.waiting import wait_until
from tests.support.webhook_server import open_receiver

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

PICTURES: Final = Path("build/traces")
SERVICES: Final = {
    "scheduler",
    "observer",
    "researcher",
    "aggregator",
    "analyzer",
    "adviser",
    "notifier",
}
SLOW_ANSWER: Final = {
    "kind": "latency",
    "contains": "Objective: ",
    "latency_seconds": 1.0,
    "always": True,
}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with traces.running_collector() as running:
        yield running


@pytest.fixture(scope="module")
async def runner(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str, collector: Collector
) -> AsyncIterator[ScenarioRunner]:
    settings = {
        **HASTY,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "VIGIL_WEBHOOK_PRIVATE": "true",
    }
    directory = tmp_path_factory.mktemp("traced")
    async with open_runner(
        running_installation(directory, sandbox_server, settings=settings)
    ) as scenario_runner:
        yield scenario_runner


async def test_the_halves_of_a_killed_step_are_one_trace(
    runner: ScenarioRunner, collector: Collector, seed: int
) -> None:
    async with open_receiver() as receiver:
        since = await runner.next_sequence()
        agent = await runner.begin(seed)
        runner.sandbox.faults(SLOW_ANSWER)
        await make_webhook(runner.database, agent, receiver.url())
        in_flight = await kill_a_researcher(runner, collector)
        run = await runner.end(agent, since)
        assert run.faults == ()
        assert run.repeated <= in_flight
        await wait_until(receiver.hit(), what="the advice to be delivered")
    async with runner.database.transaction() as session:
        iteration_id = await session.scalar(
            select(Iteration.id).where(Iteration.agent_id == agent.id)
        )
    assert iteration_id is not None
    spans = await complete_trace(collector, trace_id_of(iteration_id))
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "killed-researcher.txt").write_text(traces.draw(spans))
    (PICTURES / "killed-researcher.json").write_text(traces.as_jaeger(spans))
    print(traces.draw(spans))
    assert {span.service for span in spans} == SERVICES
    assert_resumed(spans)
    assert_complete(spans, run)
    [hit] = receiver.hits
    delivery = only(spans, "deliver webhook")
    assert hit.headers["traceparent"] == f"00-{delivery.trace_id}-{delivery.span_id}-01"


async def kill_a_researcher(runner: ScenarioRunner, collector: Collector) -> int:
    """Kill the researcher when the first calls of its steps have been exported; return how many were in flight."""

    async def is_working() -> bool:
        return any(
            span.service == "researcher" and span.name.startswith("chat")
            for span in collector.spans
        )

    await wait_until(is_working, what="a call of the researcher")
    runner.installation.send("researcher", signal.SIGKILL)
    return await runner.in_flight_at_kill("researcher")


async def complete_trace(collector: Collector, trace_id: str) -> list[ReceivedSpan]:
    """The spans of the trace, when its root, its delivery, every service and the parents of all others have arrived."""

    async def look() -> list[ReceivedSpan]:
        spans = collector.trace(trace_id)
        names = {span.name for span in spans}
        has_ends = {"iteration", "deliver webhook"} <= names
        is_complete = has_ends and {span.service for span in spans} == SERVICES
        return spans if is_complete and not traces.orphans(spans) else []

    return await wait_until(look, what="all spans of the trace")


def assert_resumed(spans: list[ReceivedSpan]) -> None:
    """Each step that the killed researcher had begun has two attempts; the second refers to the first."""
    attempts = sorted(
        (span for span in spans if span.name == "step query"), key=lambda span: span.attempt
    )
    lost = {span.attributes["vigil.step.id"]: span for span in attempts if span.error}
    resumed = {span.attributes["vigil.step.id"]: span for span in attempts if span.attempt == 2}
    assert lost
    assert lost.keys() == resumed.keys()
    for step_id, span in lost.items():
        assert span.error == "the worker was lost: its lease expired"
        assert span.attributes["error.type"] == "worker_lost"
        assert resumed[step_id].links == (span.span_id,)
        assert resumed[step_id].parent_id == span.parent_id
        assert span.attempt == 1
    begun = {span.span_id for span in lost.values()}
    assert [span for span in spans if span.parent_id in begun], "the first half has no spans"


def assert_complete(spans: list[ReceivedSpan], run: ScenarioRun) -> None:
    """Every step, call and search of the iteration has its span."""
    ended = Counter(span.name for span in spans if not span.error)
    assert ended["iteration"] == ended["start iteration"] == 1
    assert (ended["step observe"], ended["step advise"]) == (1, 1)
    assert (ended["step query"], ended["step insight"]) == (QUERIES, INSIGHTS)
    assert ended["join"] >= 1 + QUERIES + INSIGHTS
    chats = [span for span in spans if span.name.startswith("chat ")]
    # The spans of calls that were in flight at the kill died with the worker; those of answers that were not
    # exported yet too.
    assert len(chats) >= LLM_CALLS - QUERIES
    assert len({span.attributes["vigil.call.id"] for span in chats}) == len(chats)
    assert ended["execute_tool tavilySearch"] <= SEARCHES
    assert ended["commit"] > QUERIES
    for span in chats:
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.usage.input_tokens"] > 0
        assert span.attributes["gen_ai.response.finish_reasons"]
        assert span.attributes["vigil.cost.usd"] >= 0
    root = only(spans, "iteration")
    assert root.parent_id == ""
    assert root.attributes["vigil.iteration.status"] == run.result.status
    assert min(span.start for span in spans if span.name != "step query") >= root.start


def only(spans: list[ReceivedSpan], name: str) -> ReceivedSpan:
    [span] = [span for span in spans if span.name == name]
    return span
