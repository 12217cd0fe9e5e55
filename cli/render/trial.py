"""The report of a model trial in a terminal, and several reports side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.render.console import details, listing, print_rows
from cli.trial.report import PhaseReport, Report
from cli.trial.run import Trial
from shared.wording import clip, duration, plural, usd

_STYLES: Final = {
    "usable": "good", "usable with repairs": "good", "usable in part": "warn",
    "not usable": "bad", "not finished": "warn",
    "worked": "good", "failed": "bad", "partly failed": "warn",
    "unfinished": "warn", "not reached": "quiet",
}  # fmt: skip
_MAX_EXAMPLE_CHARS: Final = 160
_MAX_EXAMPLES: Final = 3
_PRICES: Final = {
    "listed": "listed price",
    "given": "price given with --price",
    "own_server": "counted as free: not listed, and the server is on this machine or a private network",
    "fallback": "FALLBACK price: the model is not in the price list",
}


def show_announcement(console: Console, trial: Trial) -> None:
    console.print("[title]Model trial[/]")
    if trial.server is None:
        console.print(
            "  No model server is configured (--url, OPENAI_BASE_URL or OPENAI_API_KEY), so this tests the "
            "sandbox, which reads labelled figures and is not a language model.",
        )
    console.print(
        f"  The sandbox answers searches from the CIA World Factbook. At most {usd(float(trial.budget_usd))} "
        f"and {duration(trial.time_limit_seconds)}; press Ctrl-C to stop early and get a report."
    )


def show_report(console: Console, report: Report) -> None:
    server = report.server.url or "the sandbox, which is not a language model"
    console.print(f"\n[title]{escape(report.server.model)}[/] at {escape(server)}")
    verdict = report.verdict
    console.print(f"[{_STYLES[verdict.word]}]{escape(verdict.sentence)}[/]")
    for reason in verdict.reasons:
        console.print(f"  {escape(clip(reason, _MAX_EXAMPLE_CHARS))}")
    console.print()
    print_rows(console, report.phases, _PHASE)
    console.print()
    rows = ((name, escape(value)) for name, value in _compared(report) if name != "Verdict")
    console.print(details(rows))
    lines = [
        *(f"refused {refusal.count} ×: {refusal.kind}" for refusal in report.tools.refusals),
        *(f"repaired: {repair}" for repair in report.repairs.examples[:_MAX_EXAMPLES]),
        *(
            f"wrong: {fact.element}, {fact.property} is {fact.written}; the corpus says {fact.stated}"
            for fact in report.facts.wrong_examples[:_MAX_EXAMPLES]
        ),
        *(f"error in {phase.phase}: {error}" for phase in report.phases for error in phase.errors),
        *(report.verification.breaks if report.verification else ()),
        *report.errors,
    ]
    if lines:
        console.print()
    for line in lines:
        console.print(f"  [warn]![/] {escape(clip(line, 2 * _MAX_EXAMPLE_CHARS))}")


def show_comparison(console: Console, reports: Sequence[Report]) -> None:
    """One column per report."""
    columns = [dict(_compared(report)) for report in reports]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [
        (f"[quiet]{name}[/]", *(escape(column.get(name, "–")) for column in columns))
        for name in names
    ]
    console.print(listing(["", *(escape(report.server.model) for report in reports)], rows))


_PHASE: Final[Mapping[str, Callable[[PhaseReport], str]]] = {
    "Phase": lambda phase: phase.phase,
    "": lambda phase: f"[{_STYLES[phase.status]}]{phase.status}[/]",
    ">Runs": lambda phase: str(phase.runs),
    ">Failed": lambda phase: str(phase.failed),
    ">Calls": lambda phase: str(phase.calls),
    ">Tokens in": lambda phase: f"{phase.input_tokens:,}",
    ">Tokens out": lambda phase: f"{phase.output_tokens:,}",
    ">Time": lambda phase: duration(phase.seconds),
    ">Tokens/s": lambda phase: f"{phase.tokens_per_second:,.1f}" if phase.tokens_per_second else "",
}


def _compared(report: Report) -> Iterator[tuple[str, str]]:
    """Names and values of the rows. A report of the sandbox has no conversations."""
    yield "Verdict", report.verdict.word
    run, preflight, costs = report.run, report.preflight, report.costs
    yield "Iterations", f"{run.iterations_completed} of {run.iterations_asked} completed"
    yield "Time", f"{duration(run.seconds)} ({run.ended.replace('_', ' ')})"
    for name, probe in preflight.conversations.items():
        yield name, "yes" if probe.works else f"no: {clip(probe.detail, 80)}"
    answers = report.structured
    yield (
        "Structured answers",
        f"{answers.first_try} on the first attempt, {answers.after_repair} after repair, {answers.failed} failed",
    )
    yield "Tools used", f"{report.tools.made} calls, {report.tools.refused} refused"
    yield "Repairs", _repairs(report)
    graph = report.graph
    yield (
        "Graph",
        f"{plural(graph.nodes, 'node')}, {plural(graph.edges, 'edge')}, {graph.evidence} quotes as evidence",
    )
    facts = report.facts
    yield "Facts", f"{facts.right} right, {facts.wrong} wrong, {facts.not_checkable} not checkable"
    yield "Concluded", f"{plural(graph.analyses, 'analysis')}, {plural(graph.advice, 'advice')}"
    yield "Checked", _verification(report)
    yield "Tokens", f"{costs.input_tokens:,} in, {costs.output_tokens:,} out"
    yield "Cost", f"{usd(costs.spent_usd)} of {usd(costs.budget_usd)}"
    yield "Price", _PRICES[costs.price.source]


def _repairs(report: Report) -> str:
    by_subject = ", ".join(f"{name} {count}" for name, count in report.repairs.by_subject.items())
    return f"{report.repairs.total} ({by_subject})" if by_subject else "none"


def _verification(report: Report) -> str:
    verification = report.verification
    if verification is None:
        return "not reached"
    return "intact" if verification.holds else f"{verification.broken} broken"
