"""Runs a trial and builds its report."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal, TypeVar

from rich.console import Console
from rich.markup import escape

from cli.client.client import Client
from cli.config.providers import DEFAULT_CORPUS, Providers
from cli.errors import AwayError, CommandError
from cli.local.errors import LocalError
from cli.local.members import demo_ports
from cli.local.supervisor import Stack, installation
from cli.render.operations import Activity
from cli.throwaway import create_agent, run_iterations, temporary_directory, watching
from cli.trial import report as reports
from cli.trial.facts import FactCheck
from cli.trial.preflight import HIDDEN, Preflight, preflight
from cli.trial.preflight import Server as ModelServer
from cli.trial.pricing import TrialPrice, output_limit, price_of, write_prices
from cli.trial.report import Recorded, Report, Run
from cli.verification import verify_agent
from sandbox.corpus.factbook import countries
from shared.llm.pricing import Prices
from shared.runtime.providers import NO_KEY
from shared.runtime.settings import SANDBOX_MODEL
from shared.schemas.base import AgentDetails, IterationDetails
from shared.schemas.costs import BudgetResponse
from shared.schemas.iterations import CallResponse
from shared.version import vigil_version
from shared.wording import clip, duration, usd

MISSION: Final = (
    "Watch electricity, oil and gas and the exports of Ghana and Nigeria, "
    "and find what an investor should know"
)
PROGRESS_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 2.0
"""How often to check whether the budget is used up."""
_DEADLINE_MARGIN_SECONDS: Final = 600.0
_NODES_READ: Final = 5000

T = TypeVar("T")
EndReason = Literal["finished", "time_limit", "interrupted", "budget", "failed"]


@dataclass(frozen=True)
class Trial:
    """Options of a trial. `server` None tests the sandbox's own model. `started` is by the monotonic clock."""

    server: ModelServer | None
    prices: Prices
    price: str | None
    iterations: int
    budget_usd: Decimal
    output_tokens: int
    """The output limit from the settings."""
    time_limit_seconds: float
    wait_seconds: float
    keep: Path | None
    started: float = field(default_factory=time.monotonic)


class _TrialEndedError(CommandError):
    """Ends the trial early, with a report."""

    def __init__(self, why: EndReason) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class _Course:
    """The state of a running trial."""

    agent: AgentDetails | None = None
    ended: EndReason = "finished"
    errors: list[str] = field(default_factory=list)


def run_trial(console: Console, trial: Trial) -> Report:
    """Runs it to its end, its time limit, or Ctrl-C; the report says which.

    Raises UnreachableError before anything is started if the model server cannot be used, LocalError if the
    installation cannot start, and KeyboardInterrupt if Ctrl-C comes before there is anything to report.
    """
    capabilities, model = Preflight(), SANDBOX_MODEL
    if trial.server is not None:
        console.print(f"  testing the features of {escape(trial.server.shown_url)}")
        capabilities, model = asyncio.run(preflight(trial.server, reach_seconds=trial.wait_seconds))
        for feature, probe in capabilities.conversations.items():
            mark = "[good]✓[/]" if probe.works else "[warn]![/]"
            console.print(f"    {mark} {feature}: [quiet]{escape(clip(probe.detail, 160))}[/]")
        for each in capabilities.notes:
            console.print(f"    [quiet]· {escape(each)}[/]")
    url = trial.server.url if trial.server is not None else ""
    price = price_of(trial.prices, model, url, trial.price)
    limit = output_limit(price.price, trial.budget_usd, trial.output_tokens)
    console.print(f"  Price: {escape(price.sentence())}.")
    with temporary_directory(trial.keep) as directory:
        directory.create()
        prices_file = directory.root / "trial-prices.toml"
        write_prices(prices_file, trial.prices, model, price.price)
        settings = _settings(trial, model, prices_file, limit)
        providers = Providers(
            model=None if trial.server is None else f"the model server at {url}",
            search=None,
            corpus=DEFAULT_CORPUS,
            also=settings,
        )
        with (
            Activity(console) as activity,
            installation(directory, providers, demo_ports, activity.say) as stack,
        ):
            activity.end()
            course = _Course()
            recorded = _run(console, trial, stack, course)
    report = _report(trial, model, capabilities, price, limit, course, recorded)
    return _without_secrets(report, trial.server)


def _settings(trial: Trial, model: str, prices_file: Path, limit: int) -> Mapping[str, str]:
    """Further settings of the services: prices, caps, and fixed values that make trials comparable."""
    settings = {
        "VIGIL_PRICES": "",
        "VIGIL_PRICES_FILE": str(prices_file),
        "VIGIL_BUDGET_USD_PER_DAY": f"{trial.budget_usd:f}",
        "VIGIL_BUDGET_CALLS_PER_DAY": "",
        "VIGIL_MAX_OUTPUT_TOKENS": str(limit),
        "VIGIL_MAX_OUTPUT_TOKENS_OF_PHASE": "",
        "VIGIL_EMBEDDING_MODEL": "",
        "VIGIL_ITERATION_DEADLINE_SECONDS": str(
            trial.time_limit_seconds + _DEADLINE_MARGIN_SECONDS
        ),
    }
    if trial.server is None:
        return settings
    return settings | {
        "OPENAI_BASE_URL": trial.server.url,
        "OPENAI_API_KEY": trial.server.key or NO_KEY,
        "OPENAI_MODEL": model,
    }


def _run(console: Console, trial: Trial, stack: Stack, course: _Course) -> Recorded:
    progress = _Progress(console, trial.started)
    deadline = trial.started + trial.time_limit_seconds
    with watching(stack, console, deadline, progress.check) as watch:
        progress.client = watch.client

        def store_agent(agent: AgentDetails) -> None:
            course.agent = progress.agent = agent

        try:
            agent = create_agent(console, watch, MISSION, store_agent)
            if agent.status == "ready":
                for _ in run_iterations(watch, agent, trial.iterations):
                    continue
            course.ended = "time_limit" if watch.out_of_time else "finished"
        except KeyboardInterrupt:
            course.ended = "interrupted"
        except _TrialEndedError as error:
            course.ended = error.why
        except (LocalError, AwayError) as error:
            course.ended = "failed"
            course.errors.append(str(error))
        recorded = _read_records(watch.client, course, trial.iterations)
        completed = sum(iteration.status == "completed" for iteration in recorded.iterations)
        is_suspended = recorded.agent is not None and _is_suspended(recorded.agent)
        if is_suspended and completed < max(trial.iterations, 1):
            course.ended = "budget"
        if course.ended != "finished":
            console.print(
                f"\n[warn]{escape(_WHY[course.ended])}[/]: the report covers what was done so far."
            )
        return recorded


_WHY: Final = {
    "time_limit": "The time limit was reached",
    "interrupted": "Interrupted",
    "budget": "The budget is used up",
    "failed": "The installation failed",
}


class _Progress:
    """Prints progress from time to time, and ends the trial when its budget is used up."""

    def __init__(self, console: Console, started: float) -> None:
        self._console = console
        self._started = started
        self._printed_at = time.monotonic()
        self._checked_at = self._printed_at
        self.client: Client | None = None
        self.agent: AgentDetails | None = None

    def check(self) -> None:
        """Raises _TrialEndedError."""
        now = time.monotonic()
        if self.client is None or self.agent is None or now - self._checked_at < LOOK_SECONDS:
            return
        self._checked_at = now
        try:
            agent = self.client.agent(str(self.agent.id))
            if now - self._printed_at >= PROGRESS_SECONDS:
                self._printed_at = now
                self._print_progress(self.client, str(agent.id), now - self._started)
        except AwayError:
            return
        if _is_suspended(agent):
            raise _TrialEndedError("budget")

    def _print_progress(self, client: Client, agent: str, seconds: float) -> None:
        calls = client.calls(agent)
        phases = sorted({group.phase for group in calls.groups if group.unanswered})
        totals = calls.totals
        self._console.print(
            f"  [quiet]… {duration(seconds)}: {escape(', '.join(phases) or 'between two calls')}; "
            f"{totals.llm_calls} answers, {totals.input_tokens:,} tokens in, {totals.output_tokens:,} out, "
            f"{usd(totals.cost_usd)}[/]"
        )


def _is_suspended(agent: AgentDetails) -> bool:
    """Whether the agent is suspended because its budget is used up."""
    return agent.suspended_until is not None and agent.suspended_until > datetime.now(UTC)


def _read_records(client: Client, course: _Course, iterations_asked: int) -> Recorded:
    """Reads the agent's data of the requested iterations; data that cannot be read is listed in `course.errors`.

    A new agent starts its first iteration by itself, even if none was requested.
    """
    if course.agent is None:
        return Recorded(None, None, (), (), (), (), None, 0.0)
    agent = str(course.agent.id)

    def read(subject: str, load: Callable[[], T], default: T) -> T:
        try:
            return load()
        except CommandError as error:
            course.errors.append(f"could not read {subject}: {error}")
            return default

    def iterations() -> list[IterationDetails]:
        heads = sorted(client.iterations(agent, limit=None), key=lambda head: head.number)
        return [client.iteration(head.id) for head in heads if head.number <= iterations_asked]

    def all_calls() -> list[CallResponse]:
        return list(client.pages(CallResponse, client.agent_path(agent, "calls")))

    def spent_usd() -> float:
        return client.get(BudgetResponse, client.agent_path(agent, "budget")).usage.spent_usd

    details: list[IterationDetails] = read("the iterations", iterations, [])
    iteration_ids = {None, *(iteration.id for iteration in details)}
    calls: list[CallResponse] = read("the calls", all_calls, [])
    return Recorded(
        agent=read("the agent", lambda: client.agent(agent), course.agent),
        configuration=read("the configuration", lambda: client.configuration(agent), None),
        iterations=details,
        calls=[call for call in calls if call.iteration_id in iteration_ids],
        nodes=read("the nodes", lambda: list(client.nodes(agent, _NODES_READ)), []),
        edges=read("the edges", lambda: list(client.edges(agent, _NODES_READ)), []),
        verified=read("the verification", lambda: verify_agent(client, client.agent(agent)), None),
        spent_usd=read("the budget", spent_usd, 0.0),
    )


def _report(
    trial: Trial,
    model: str,
    capabilities: Preflight,
    price: TrialPrice,
    limit: int,
    course: _Course,
    recorded: Recorded,
) -> Report:
    statuses = [iteration.status for iteration in recorded.iterations]
    run = Run(
        ended=course.ended,
        iterations_asked=trial.iterations,
        iterations_completed=statuses.count("completed"),
        iterations_failed=statuses.count("failed"),
        seconds=round(time.monotonic() - trial.started, 1),
        time_limit_seconds=trial.time_limit_seconds,
    )
    phases = reports.phases_of(recorded)
    structured = reports.structured_of(recorded)
    repairs = reports.repairs_of(recorded.interactions)
    graph = reports.graph_of(recorded)
    facts = reports.facts_of(recorded, FactCheck(countries()))
    verification = reports.verification_of(recorded.verified)
    url = None if trial.server is None else trial.server.shown_url
    return Report(
        made_at=datetime.now(UTC),
        vigil_version=vigil_version(),
        mission=MISSION,
        server=reports.Server(url=url, model=model),
        preflight=capabilities,
        run=run,
        phases=phases,
        tools=reports.tools_of(recorded.interactions),
        repairs=repairs,
        structured=structured,
        graph=graph,
        facts=facts,
        costs=reports.CostReport(
            budget_usd=float(trial.budget_usd),
            spent_usd=recorded.spent_usd,
            input_tokens=sum(phase.input_tokens for phase in phases),
            output_tokens=sum(phase.output_tokens for phase in phases),
            price=reports.PriceReport(
                input_usd=float(price.price.input),
                output_usd=float(price.price.output),
                source=price.source,
            ),
            output_limit_tokens=limit,
        ),
        verification=verification,
        verdict=reports.verdict_of(run, phases, structured, repairs, graph, facts, verification),
        errors=course.errors,
    )


def _without_secrets(report: Report, server: ModelServer | None) -> Report:
    """Removes the key, which servers and models may repeat in their answers."""
    for secret in server.secrets if server is not None else ():
        written = json.dumps(secret, ensure_ascii=False)[1:-1]
        report = Report.model_validate_json(report.model_dump_json().replace(written, HIDDEN))
    return report
