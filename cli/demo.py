"""`vigil demo`: a new agent on a temporary installation, watched until it gives advice, whose evidence is then checked."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from cli.client.client import Client
from cli.config.local_servers import find_local_servers
from cli.config.providers import CheckedCorpus, Providers
from cli.local.members import demo_ports
from cli.local.signals import StopSignals
from cli.local.supervisor import Stack, installation
from cli.provider_check import require_accepted_keys, unreachable_providers
from cli.render.console import err, out
from cli.render.costs import NOT_BILLED
from cli.render.graph import show_graph
from cli.render.iterations import show_conclusions
from cli.render.operations import (
    Activity,
    show_corpus,
    show_local_servers,
    show_process_events,
    show_unreached,
)
from cli.render.provenance import show_summary
from cli.throwaway import create_agent, run_iterations, temporary_directory, watching
from cli.watch import IterationWatch
from shared.runtime.settings import Settings
from shared.schemas.base import (
    AgentDetails,
    CallTotals,
    ConclusionResponse,
    GraphResponse,
    IterationDetails,
)
from shared.schemas.graph import NodeDetails
from shared.schemas.provenance import VerificationResponse
from shared.wording import clip, duration, plural, usd

NO_ADVICE: Final = 1
"""Exit code if iterations completed, and none gave advice."""
MAX_ITERATIONS: Final = 5
POLL_SECONDS: Final = 0.25
MAX_NODES: Final = 12
MAX_QUOTES: Final = 3
MAX_CONCLUSIONS_SHOWN: Final = 3


@dataclass(frozen=True)
class Quoted:
    node: str
    quote: str
    url: str


@dataclass(frozen=True)
class Summary:
    agent: AgentDetails
    iterations: tuple[IterationDetails, ...]
    """Ended ones, oldest first."""
    graph: GraphResponse
    analyses: tuple[ConclusionResponse, ...]
    advice: tuple[ConclusionResponse, ...]
    calls: CallTotals
    quotes: tuple[Quoted, ...]
    """A few quotes that are evidence for nodes, each from another page."""
    verification: VerificationResponse | None
    """That of the newest advice; None if there is no advice."""
    seconds: float
    """From the start of the command to the end of the last iteration."""

    @property
    def completed(self) -> int:
        return sum(iteration.status == "completed" for iteration in self.iterations)

    def as_json(self, *, corpus: str | None, model: str) -> dict[str, Any]:
        return {
            "iterations": len(self.iterations),
            "completed": self.completed,
            "failed": len(self.iterations) - self.completed,
            **self.graph.counts.model_dump(include={"nodes", "edges", "analyses", "advice"}),
            "llm_calls": self.calls.llm_calls,
            "advice_intact": self.verification.holds if self.verification else None,
            "search_calls": self.calls.search_calls,
            "cost_usd": self.calls.cost_usd,
            "seconds": round(self.seconds, 1),
            "corpus": corpus,
            "mission": self.agent.mission,
            "model": model,
        }


@dataclass(frozen=True)
class Demo:
    """Options of a demo. `started` is by the monotonic clock; the timeout counts from then."""

    mission: str
    settings: Settings
    providers: Providers
    corpus: CheckedCorpus | None
    """None if the sandbox is not needed."""
    iterations: int | None
    """None: until there is advice, at most MAX_ITERATIONS."""
    keep: Path | None
    started: float
    timeout_seconds: float
    as_json: bool
    stays: bool = False
    """Whether the installation runs on at the end, until Ctrl-C."""
    mission_is_derived: bool = False
    """Whether the mission was made from the corpus."""

    @property
    def console(self) -> Console:
        """Where progress is printed: stdout is for the JSON object alone, if that is wanted."""
        return err() if self.as_json else out()


def run_demo(demo: Demo, signals: StopSignals) -> int:
    """Runs the demo and returns the exit code. Raises VigilError if it cannot start, and KeyboardInterrupt."""
    console = demo.console
    _announce(console, demo)
    with (
        temporary_directory(demo.keep, signals.held_back) as directory,
        Activity(console) as activity,
        installation(directory, demo.providers, demo_ports, activity.say) as stack,
    ):
        activity.end()
        took = duration(time.monotonic() - demo.started)
        console.print(
            f"  [good]●[/] PostgreSQL, NATS, the services and the API are running [quiet]{took}[/]"
        )
        summary, model = _run(console, demo, stack)
        if demo.as_json:
            corpus = demo.providers.corpus if demo.providers.needs_sandbox else None
            print(
                json.dumps(summary.as_json(corpus=corpus, model=model), ensure_ascii=False),
                flush=True,
            )
        elif summary.completed:
            show_results(console, summary)
        if summary.completed:
            _stay_or_end(console, demo, stack)
    return _outcome(console, demo, summary)


def _outcome(console: Console, demo: Demo, summary: Summary) -> int:
    """The exit code, with the reason if it is not 0."""
    if not summary.completed:
        console.print(
            "\n[bad]No iteration completed.[/] [quiet]Run `vigil doctor` to find the cause.[/]"
        )
        return 1
    if not demo.as_json:
        console.print("\n[title]Next[/]")
        if demo.keep:
            console.print(f"  vigil up --data {demo.keep}   [quiet]continue with this agent[/]")
        console.print(
            '  vigil demo --corpus FOLDER --mission "…"   [quiet]use your own documents[/]\n'
            '  vigil up, then vigil agent create "…"      [quiet]create an agent that keeps running[/]'
        )
        if demo.providers.needs_sandbox:
            console.print(
                "  OPENAI_API_KEY=… TAVILY_API_KEY=… vigil demo   [quiet]use a real model and the web[/]"
            )
    if summary.verification is None:
        return NO_ADVICE
    return 0 if summary.verification.holds else 1


def _announce(console: Console, demo: Demo) -> None:
    console.print("[title]Vigil demo[/]")
    console.print(f"  {escape(demo.providers.sentence())}")
    if demo.corpus:
        show_corpus(console, demo.corpus, sandbox_model=demo.providers.model is None)
    if demo.providers.model is None:
        show_local_servers(console, find_local_servers(), "vigil demo")
    if demo.mission_is_derived:
        console.print(
            "  [quiet]No --mission was given, so the mission compares the figures of the documents.[/]"
        )
    unreached = unreachable_providers(demo.settings, demo.providers)
    require_accepted_keys(unreached)
    show_unreached(console, unreached)


def _run(console: Console, demo: Demo, stack: Stack) -> tuple[Summary, str]:
    deadline = demo.started + demo.timeout_seconds
    with watching(stack, console, deadline) as watch:
        client = watch.client
        model = client.providers().model
        # A small folder may allow one comparison only. A real model has the usual rule, which is two.
        from_one = True if demo.providers.model is None else None
        agent = create_agent(console, watch, demo.mission, advice_from_one_analysis=from_one)
        ready = agent.status == "ready"
        iterations = list(_until_advice(console, demo, watch, agent)) if ready else []
        if watch.out_of_time:
            console.print(
                f"\n[bad]The time limit of {demo.timeout_seconds:.0f} seconds (--timeout) was reached[/] before the "
                "last iteration ended."
            )
        seconds = time.monotonic() - demo.started
        return summarize(client, str(agent.id), iterations, seconds), model


def _until_advice(
    console: Console, demo: Demo, watch: IterationWatch, agent: AgentDetails
) -> Iterator[IterationDetails]:
    """Yields the iterations: as many as were asked for, else until one gives advice or finds nothing to do."""
    if demo.iterations is not None:
        yield from run_iterations(watch, agent, demo.iterations)
        return
    most = f"at most {MAX_ITERATIONS}, until there is advice"
    for iteration in run_iterations(watch, agent, MAX_ITERATIONS, most):
        yield iteration
        if _gives_advice(iteration):
            return
        if not any(step.kind in ("query", "insight") for step in iteration.steps):
            console.print(
                "  [quiet]It found nothing more to do, so the demo does not wait for advice.[/]"
            )
            return
        if iteration.number < MAX_ITERATIONS:
            console.print("  [quiet]No advice yet. The next iteration builds on this graph.[/]")


def _gives_advice(iteration: IterationDetails) -> bool:
    steps = (step for step in iteration.steps if step.kind == "advise")
    return any((step.result or {}).get("advice") for step in steps)


def _stay_or_end(console: Console, demo: Demo, stack: Stack) -> None:
    """Keeps the installation running with a sign-in link until Ctrl-C, or says how to get there."""
    if not demo.stays:
        console.print(
            "\n[title]Web UI[/]\n  [quiet]The installation stops now. In a terminal, or with --stay, it "
            "keeps running and the demo prints a sign-in link for its web UI, such as "
            f"{stack.running.api_url}/sign-in/…[/]"
        )
        return
    with Client(stack.api) as client:
        link = client.make_link()
    data = f"its data is kept in {demo.keep}" if demo.keep else "its data is removed"
    console.print(
        f"\n[title]Web UI[/]\n  Open [link]{escape(link.url)}[/]\n"
        "  [quiet]The link works once and expires after 15 minutes. The installation runs until Ctrl-C; "
        f"then {escape(data)}.[/]"
    )
    while True:
        show_process_events(console, stack.look_after())
        time.sleep(POLL_SECONDS)


def summarize(
    client: Client, agent_id: str, iterations: Sequence[IterationDetails], seconds: float
) -> Summary:
    graph = client.graph(agent_id, limit=MAX_NODES)
    advice = tuple(client.conclusions(agent_id, "advice"))
    return Summary(
        agent=client.agent(agent_id),
        iterations=tuple(iterations),
        graph=graph,
        quotes=_load_quotes(client, agent_id, graph),
        analyses=tuple(client.conclusions(agent_id, "analyses")),
        advice=advice,
        verification=client.verification(advice[0].id) if advice else None,
        calls=client.calls(agent_id).totals,
        seconds=seconds,
    )


def _load_quotes(client: Client, agent_id: str, graph: GraphResponse) -> tuple[Quoted, ...]:
    by_url: dict[str, Quoted] = {}
    for node in graph.nodes:
        details = client.get(NodeDetails, client.agent_path(agent_id, "nodes", node.id))
        for evidence in details.evidence.items[:1]:
            by_url.setdefault(evidence.url, Quoted(node.name, evidence.quote, evidence.url))
        if len(by_url) == MAX_QUOTES:
            break
    return tuple(by_url.values())


def show_results(console: Console, summary: Summary) -> None:
    console.print("\n[title]What it learned[/]")
    show_graph(console, summary.agent, summary.graph)
    for quoted in summary.quotes:
        quote = escape(clip(quoted.quote, 220))
        console.print(
            f"\n  [agent]{escape(quoted.node)}[/] “{quote}”\n  [link]{escape(quoted.url)}[/]"
        )
    for noun, conclusions in (("analysis", summary.analyses), ("advice", summary.advice)):
        console.print(f"\n[title]{plural(len(conclusions), noun)}[/]")
        shown = conclusions[:MAX_CONCLUSIONS_SHOWN]
        show_conclusions(console, shown, noun=noun, limit=MAX_CONCLUSIONS_SHOWN)
    if summary.verification is not None:
        console.print(
            f"\n[title]Checked[/]  [quiet]vigil verify {summary.verification.id}, without calling a model[/]"
        )
        show_summary(console, summary.verification)
    elif reason := _why_no_advice(summary.iterations):
        console.print(f"  {escape(reason)}")
    calls = summary.calls
    tokens = calls.input_tokens + calls.output_tokens
    console.print(
        f"\n[quiet]{plural(calls.llm_calls, 'model call')}, {plural(calls.search_calls, 'search')}"
        f", {tokens:,} tokens, {_cost(calls)}, {duration(summary.seconds)} in total[/]"
    )


def _why_no_advice(iterations: Sequence[IterationDetails]) -> str:
    """What the Adviser said last; empty if it was never asked."""
    steps = [step for iteration in iterations for step in iteration.steps if step.kind == "advise"]
    return str((steps[-1].result or {}).get("reason") or "") if steps else ""


def _cost(calls: CallTotals) -> str:
    if calls.cost_usd:
        return usd(calls.cost_usd)
    return "cost unknown" if calls.unpriced_calls else NOT_BILLED
