"""The report of a model trial in a terminal, and several reports side by side."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.render.console import clip, counted, duration
from cli.trial.report import PhaseReport, Report
from cli.trial.run import Trial

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


def _usd(amount: float) -> str:
    return f"{amount:,.2f} USD" if amount == 0 or amount >= 0.1 else f"{amount:.4f} USD"


def show_announcement(console: Console, trial: Trial) -> None:
    console.print("[title]Model trial[/]")
    if trial.server is None:
        console.print(
            "  No model server is configured (--url, OPENAI_BASE_URL or OPENAI_API_KEY), so this tests the "
            "sandbox's model, which answers by rules and is not a language model.",
            soft_wrap=True,
        )
    console.print(
        f"  The sandbox answers searches from the CIA World Factbook. At most {_usd(float(trial.budget_usd))} "
        f"and {duration(trial.time_limit_seconds)}; press Ctrl-C to stop early and get a report.",
        soft_wrap=True,
    )


def show_report(console: Console, report: Report) -> None:
    server = report.server.url or "the sandbox, which is not a language model"
    console.print(f"\n[title]{escape(report.server.model)}[/] at {escape(server)}", soft_wrap=True)
    _show_verdict(console, report)
    console.print()
    console.print(_phases(report.phases))
    console.print()
    console.print(_facts(report))
    _show_examples(console, report)


def show_comparison(console: Console, reports: Sequence[Report]) -> None:
    """One column per report."""
    table = Table(box=None, pad_edge=False, header_style="title", padding=(0, 2, 0, 0))
    table.add_column("")
    for report in reports:
        table.add_column(escape(report.server.model))
    columns = [list(_compared(report)) for report in reports]
    for rows in zip(*columns, strict=True):
        table.add_row(f"[quiet]{rows[0][0]}[/]", *(escape(value) for _, value in rows))
    console.print(table)


def _show_verdict(console: Console, report: Report) -> None:
    verdict = report.verdict
    console.print(f"[{_STYLES[verdict.word]}]{escape(verdict.sentence)}[/]", soft_wrap=True)
    for reason in verdict.reasons:
        console.print(f"  {escape(clip(reason, _MAX_EXAMPLE_CHARS))}", soft_wrap=True)


def _phases(phases: Sequence[PhaseReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    table.add_column("Phase")
    table.add_column("")
    for name in ("Runs", "Failed", "Calls", "Tokens in", "Tokens out", "Time", "Tokens/s"):
        table.add_column(name, justify="right")
    for phase in phases:
        table.add_row(
            phase.phase,
            f"[{_STYLES[phase.status]}]{phase.status}[/]",
            str(phase.runs),
            str(phase.failed),
            str(phase.calls),
            f"{phase.input_tokens:,}",
            f"{phase.output_tokens:,}",
            duration(phase.seconds),
            "" if phase.tokens_per_second is None else f"{phase.tokens_per_second:,.1f}",
        )
    return table


def _facts(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _compared(report):
        if name != "Verdict":
            table.add_row(f"[quiet]{name}[/]", escape(value))
    return table


def _compared(report: Report) -> Iterator[tuple[str, str]]:
    """Names and values of the rows, the same for every report."""
    yield "Verdict", report.verdict.word
    run, preflight, costs = report.run, report.preflight, report.costs
    yield "Iterations", f"{run.iterations_completed} of {run.iterations_asked} completed"
    yield "Time", f"{duration(run.seconds)} ({run.ended.replace('_', ' ')})"
    for name, probe in (
        ("Streaming", preflight.streaming),
        ("Tool calls", preflight.tool_calls),
        ("JSON Schema", preflight.structured_output),
        *(preflight.turns.conversations.items() if preflight.turns else ()),
    ):
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
        f"{counted(graph.nodes, 'node')}, {counted(graph.edges, 'edge')}, {graph.evidence} quotes as evidence",
    )
    facts = report.facts
    yield "Facts", f"{facts.right} right, {facts.wrong} wrong, {facts.not_checkable} not checkable"
    yield "Concluded", f"{counted(graph.analyses, 'analysis')}, {counted(graph.advice, 'advice')}"
    yield "Verified", _verification(report)
    yield "Tokens", f"{costs.input_tokens:,} in, {costs.output_tokens:,} out"
    yield "Cost", f"{_usd(costs.spent_usd)} of {_usd(costs.budget_usd)}"
    yield "Price", _PRICES[costs.price.source]


def _repairs(report: Report) -> str:
    by_subject = ", ".join(f"{name} {count}" for name, count in report.repairs.by_subject.items())
    return f"{report.repairs.total} ({by_subject})" if by_subject else "none"


def _verification(report: Report) -> str:
    verification = report.verification
    if verification is None:
        return "not reached"
    return "intact" if verification.holds else f"{verification.broken} broken"


def _show_examples(console: Console, report: Report) -> None:
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
        console.print(f"  [warn]![/] {escape(clip(line, 2 * _MAX_EXAMPLE_CHARS))}", soft_wrap=True)
