"""The services of an iteration without a bus: one event at a time, with a record of what each step was given."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from services.adviser.handler import Advise
from services.aggregator.handler import Aggregate
from services.analyzer.handler import Analyze
from services.observer.handler import Observe
from services.researcher.handler import Research
from shared import derived_events
from shared.agents.contexts import StepGroup
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import Agent, Iteration
from shared.enums import IterationStatus, Phase, StepKind
from shared.events.topology import CONSUMERS
from shared.graph.context import analyses_query, build_survey
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.provider import Model, OnDelta, Provider
from shared.llm.verification import SYSTEM_PROMPT
from shared.runtime.providers import create_model, create_search_client
from shared.runtime.router import EventHandler
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepHandler, StepResult, StepRunner
from shared.workflow import steps
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support.factories import PROMPTS, make_iteration

_PHASES: Final = {
    **{prompt: phase for phase, prompt in PROMPTS.items()},
    SYSTEM_PROMPT: Phase.VERIFICATION,
}


def fixed_clock(now: datetime) -> Callable[[UUID], BoundQuery[AgentClock]]:
    """Like `agent_clock`, with clocks that always show `now`."""
    query = BoundQuery(
        CompiledStatement("select cast(:now as timestamptz)"),
        {"now": now},
        lambda rows: AgentClock(rows[0][0]),
    )
    return lambda _: query


@dataclass(frozen=True)
class RecordedStep:
    step: StepRow
    iteration: int
    """The iteration's number."""
    scope: GraphScope
    survey: str
    """The survey that the step must be given, as this module built it before the step could write anything."""

    @property
    def title(self) -> str:
        return f"iteration {self.iteration}, {self.step.kind} {self.step.index}"


@dataclass(frozen=True)
class RecordedRequest:
    step: RecordedStep
    phase: Phase
    request: ChatRequest


@dataclass
class Recording:
    """Steps and requests, in the order in which they started and were sent."""

    steps: list[RecordedStep] = field(default_factory=list)
    requests: list[RecordedRequest] = field(default_factory=list)


class RecordedServices:
    """Observer, Researcher, Analyzer, Adviser and aggregator, each with its own database object as in production."""

    def __init__(
        self,
        database: Database,
        recording: Recording,
        handlers: Mapping[str, EventHandler],
    ) -> None:
        self._database = database
        self.recording = recording
        self._handlers = handlers

    async def run_iteration(self, agent: Agent) -> None:
        """Start the agent's next iteration and run it to its end."""
        started = await make_iteration(self._database, agent)
        events = deque([derived_events.iteration_step_event(started.iteration, started.observe)])
        while events:
            event = events.popleft()
            for service, handler in self._handlers.items():
                if isinstance(event, CONSUMERS[service].subscribes_to):
                    events.extend(await handler(event))
        async with self._database.transaction() as session:
            iteration = await session.get_one(Iteration, started.iteration.id)
        has_succeeded = iteration.status == IterationStatus.COMPLETED and not iteration.errors
        assert has_succeeded, f"iteration {iteration.number} {iteration.status}: {iteration.errors}"


@asynccontextmanager
async def recorded_services(
    database: Database, settings: Settings
) -> AsyncIterator[RecordedServices]:
    """Build the services, with the model and the search of `settings`."""
    async with AsyncExitStack() as stack:

        def open_database(service: str) -> Database:
            opened = Database(settings.database_url, name=service)
            stack.push_async_callback(opened.close)
            return opened

        provider = create_model(settings, database).provider
        stack.push_async_callback(provider.close)
        search = create_search_client(settings, database)
        stack.push_async_callback(search.close)
        recorder = _Recorder(provider, database, settings.context_tokens)

        def create_runner(
            service: str, kind: StepKind, create_handler: Callable[[Model], StepHandler]
        ) -> StepRunner:
            service_database = open_database(service)
            handler = create_handler(create_model(settings, service_database, recorder))
            return StepRunner(
                service,
                service_database,
                worker="test",
                lease_seconds=settings.lease_seconds,
                max_attempts=1,
                handlers={kind: recorder.recorded(handler)},
                on_failure={},
            )

        tokens = settings.context_tokens
        handlers: dict[str, EventHandler] = {
            "observer": create_runner(
                "observer", StepKind.OBSERVE, lambda model: Observe(model, tokens)
            ),
            "researcher": create_runner(
                "researcher", StepKind.QUERY, lambda model: Research(model, search, tokens)
            ),
            "aggregator": Aggregate(open_database("aggregator")),
            "analyzer": create_runner(
                "analyzer", StepKind.INSIGHT, lambda model: Analyze(model, tokens)
            ),
            "adviser": create_runner(
                "adviser", StepKind.ADVISE, lambda model: Advise(model, tokens)
            ),
        }
        yield RecordedServices(database, recorder.recording, handlers)


class _Recorder:
    """A provider that records requests, and a wrapper of handlers that records steps."""

    def __init__(self, provider: Provider, database: Database, context_tokens: int) -> None:
        self.recording = Recording()
        self._provider = provider
        self._database = database
        self._context_tokens = context_tokens
        self._surveys: dict[StepGroup, str] = {}

    def recorded(self, handler: StepHandler) -> StepHandler:
        """The handler, with a record of the step before it starts."""

        async def run(lease: Lease, step: StepRow) -> StepResult:
            await self._record_step(lease, step)
            return await handler(lease, step)

        return run

    async def _record_step(self, lease: Lease, step: StepRow) -> None:
        scope = GraphScope(lease.user_id, lease.agent_id, lease.iteration_id, lease.step_id)
        group = _group(step)
        async with self._database.connection() as connection:
            iteration = await steps.iteration_query(step).execute(connection)
            if group not in self._surveys:
                shown = [UUID(each) for each in step.input.get("analysis_ids", ())]
                survey = await build_survey(
                    connection,
                    scope,
                    StepKind(step.kind),
                    token_budget=self._context_tokens,
                    shown=shown,
                )
                short_ids = ShortIds(scope)
                if step.kind == StepKind.ADVISE:
                    analyses = await analyses_query(scope, shown).execute(connection)
                    await short_ids.store_numbers(connection, [analyses, survey])
                self._surveys[group] = short_ids.shorten(survey)
        self.recording.steps.append(
            RecordedStep(step, iteration.number, scope, self._surveys[group])
        )

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        system = request.messages[0]["content"]
        [phase] = [
            phase
            for prompt, phase in _PHASES.items()
            if system == prompt or system.endswith(f"\n\n{prompt}")
        ]
        self.recording.requests.append(RecordedRequest(self.recording.steps[-1], phase, request))
        return await self._provider.complete(request, in_flight, on_delta)

    async def close(self) -> None:
        await self._provider.close()


def _group(step: StepRow) -> StepGroup:
    assert step.iteration_id is not None
    return StepGroup(step.iteration_id, step.kind, steps.step_round(step))
