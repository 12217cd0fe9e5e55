"""The report of a trial: its fields, and how they are computed from the data of the installation."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple
from uuid import UUID

from pydantic import Field

from cli.errors import BadInputError, CommandError
from cli.trial.facts import FactCheck, Judgement, WrittenProperty
from cli.trial.preflight import Preflight
from cli.verification import AgentVerified
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, CallKind, Phase
from shared.schemas.agents import ConfigurationDetails
from shared.schemas.base import (
    AgentDetails,
    AnswerEvent,
    EdgeResponse,
    InteractionResponse,
    IterationDetails,
    NodeResponse,
    RepairEvent,
    ResponseModel,
    ToolResultEvent,
)
from shared.schemas.iterations import CallResponse
from shared.schemas.provenance import CheckedCounts

REPORT_VERSION: Final = 2
EXAMPLES: Final = 10
_ERROR_CHARACTERS: Final = 500
_KIND_CHARACTERS: Final = 80
_LEAST_CHECKED: Final = 5
"""Minimum number of checked facts for them alone to decide that a model is not usable."""

_PHASES: Final = (
    Phase.CONFIGURATION,
    Phase.OBSERVER,
    Phase.KNOWLEDGE_ACQUISITION,
    Phase.GRAPH_CONSTRUCTION,
    Phase.ANALYSIS_GENERATION,
    Phase.ADVICE_GENERATION,
)
_FIRST_PHASE: Final = {
    "configure": Phase.CONFIGURATION,
    "observe": Phase.OBSERVER,
    "query": Phase.KNOWLEDGE_ACQUISITION,
    "insight": Phase.ANALYSIS_GENERATION,
    "advise": Phase.ADVICE_GENERATION,
}


class Server(ResponseModel):
    url: str | None
    """None is the sandbox, which is not a language model."""
    model: str
    search: str = "sandbox, over the CIA World Factbook"


class Run(ResponseModel):
    """The progress and end of the trial."""

    ended: Literal["finished", "time_limit", "interrupted", "budget", "failed"]
    """`budget`: a call was refused because the budget would not pay it; `failed`: Vigil itself failed, see
    `errors`."""
    iterations_asked: int
    iterations_completed: int
    iterations_failed: int
    seconds: float
    time_limit_seconds: float


class PhaseReport(ResponseModel):
    """All runs of one phase. A query, an insight and so on is one run each."""

    phase: str
    status: Literal["worked", "failed", "partly failed", "unfinished", "not reached"]
    runs: int
    completed: int
    failed: int
    calls: int
    """Model calls with a response."""
    input_tokens: int
    output_tokens: int
    seconds: float
    """From a call's begin to its answer, of all calls of the model; overlapping calls count in full."""
    tokens_per_second: float | None
    """Output tokens in those seconds; None without any."""
    errors: list[str]


class ToolReport(ResponseModel):
    tool: str
    made: int
    refused: int


class RefusalReport(ResponseModel):
    kind: str
    count: int
    example: str


class ToolsReport(ResponseModel):
    made: int
    refused: int
    by_tool: list[ToolReport]
    refusals: list[RefusalReport]
    """By kind, most frequent first."""


class RepairReport(ResponseModel):
    """Corrections of the model's answers by code."""

    total: int
    by_subject: dict[str, int]
    examples: list[str]


class StructuredReport(ResponseModel):
    """Answers that had to match a JSON Schema."""

    first_try: int
    after_repair: int
    """After another request, or a correction by code."""
    failed: int


class GraphReport(ResponseModel):
    nodes: int
    """Analyses and advice are not counted."""
    edges: int
    evidence: int
    analyses: int
    advice: int


class CheckedFact(ResponseModel):
    element: str
    property: str
    written: str
    stated: str | None
    """The value in the corpus."""


class FactsReport(ResponseModel):
    """Written properties compared with the corpus."""

    right: int
    wrong: int
    not_checkable: int
    wrong_examples: list[CheckedFact]
    right_examples: list[CheckedFact]


class PriceReport(ResponseModel):
    input_usd: float
    output_usd: float
    """Per million tokens."""
    source: Literal["listed", "given", "own_server", "fallback"]
    """`own_server`: not listed, and counted as free because the server is on this machine or in a private network;
    `fallback`: not listed, and counted at the price of the most expensive models."""


class CostReport(ResponseModel):
    budget_usd: float
    spent_usd: float
    input_tokens: int
    output_tokens: int
    price: PriceReport
    output_limit_tokens: int
    """The output limit of one answer; lower than usual if the budget requires it."""


class VerificationReport(ResponseModel):
    """The result of `vigil verify --all`."""

    holds: bool
    checked: CheckedCounts
    broken: int
    in_doubt: int
    breaks: list[str]


_Word = Literal["usable", "usable with repairs", "usable in part", "not usable", "not finished"]


class Verdict(ResponseModel):
    word: _Word
    sentence: str
    reasons: list[str]

    @property
    def is_good(self) -> bool:
        return self.word in ("usable", "usable with repairs")


class Report(ResponseModel):
    """What `vigil try-model` saves. Fields are only ever added within one `report_version`."""

    report_version: int = REPORT_VERSION
    made_at: datetime
    vigil_version: str
    mission: str
    server: Server
    preflight: Preflight
    run: Run
    phases: list[PhaseReport]
    tools: ToolsReport
    repairs: RepairReport
    structured: StructuredReport
    graph: GraphReport
    facts: FactsReport
    costs: CostReport
    verification: VerificationReport | None
    """None if the trial ended before anything could be verified."""
    verdict: Verdict
    errors: list[str] = Field(default_factory=list)
    """Errors of the trial itself: data that could not be read or counted."""

    @property
    def file_name(self) -> str:
        """The default path of the report."""
        model = re.sub(r"[^A-Za-z0-9._-]+", "-", self.server.model).strip("-.")[:80]
        return f"vigil-model-report-{model or 'model'}-{self.made_at:%Y-%m-%d}.json"

    def save(self, file: Path) -> None:
        """Raises CommandError."""
        try:
            file.write_text(self.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise CommandError(f"cannot save the report in {file}: {error.strerror}") from error


def read_report(file: Path) -> Report:
    """Loads a saved report. Raises BadInputError if `file` is not a report, or of another version."""
    try:
        content = json.loads(file.read_bytes())
        if content.get("report_version") != REPORT_VERSION:
            raise BadInputError(
                f"{file} is a report of version {content.get('report_version')}, but this version of Vigil reads version "
                f"{REPORT_VERSION}: test the model again"
            )
        return Report.model_validate(content)
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise BadInputError(f"{file} is not a report of `vigil try-model`") from error


@dataclass(frozen=True)
class Recorded:
    """The data of the trial's agent, as read from the installation."""

    agent: AgentDetails | None
    configuration: ConfigurationDetails | None
    iterations: Sequence[IterationDetails]
    calls: Sequence[CallResponse]
    nodes: Sequence[NodeResponse]
    edges: Sequence[EdgeResponse]
    verified: AgentVerified | None
    spent_usd: float

    @property
    def interactions(self) -> list[InteractionResponse]:
        first = self.configuration.interaction if self.configuration else None
        return [
            *([first] if first else []),
            *(run for iteration in self.iterations for run in iteration.interactions),
        ]


class _Step(NamedTuple):
    id: UUID
    kind: str
    status: str
    error: str | None


def _steps(recorded: Recorded) -> Iterator[_Step]:
    if (first := recorded.configuration) is not None:
        yield _Step(first.step_id, "configure", first.status, first.error)
    for iteration in recorded.iterations:
        for step in iteration.steps:
            yield _Step(step.id, step.kind, step.status, step.error)


def phases_of(recorded: Recorded) -> list[PhaseReport]:
    """One report per phase, in the order of the loop, configuration first."""
    failures: dict[Phase, list[bool]] = defaultdict(list)
    """Failed runs, by whether there is an interaction of them."""
    errors: dict[Phase, dict[str, None]] = defaultdict(dict)
    """Also those that a retry resolved."""
    for step in _steps(recorded):
        phases = [Phase(run.phase) for run in recorded.interactions if run.step_id == step.id]
        phase = max(phases, key=_PHASES.index) if phases else _FIRST_PHASE[step.kind]
        if step.status == "failed":
            failures[phase].append(bool(phases))
        if step.error:
            errors[phase][step.error[:_ERROR_CHARACTERS]] = None
    return [_phase(phase, recorded, failures[phase], list(errors[phase])) for phase in _PHASES]


def _phase(
    phase: Phase, recorded: Recorded, failures: Sequence[bool], errors: list[str]
) -> PhaseReport:
    runs = [run for run in recorded.interactions if run.phase == phase]
    failed, total = len(failures), len(runs) + failures.count(False)
    # A completed conversation can still have failed: its document was rejected.
    completed = min(sum(run.completed_at is not None for run in runs), total - failed)
    status: Literal["worked", "failed", "partly failed", "unfinished", "not reached"]
    status = "worked" if completed == total else "unfinished"
    if failed:
        status = "partly failed" if completed else "failed"
    calls = [
        call
        for call in recorded.calls
        if call.kind == CallKind.LLM and call.phase == phase and call.answered_at is not None
    ]
    times = ((call.answered_at or call.started_at) - call.started_at for call in calls)
    seconds = sum(time.total_seconds() for time in times)
    output = sum(call.output_tokens or 0 for call in calls)
    return PhaseReport(
        phase=phase.value,
        status=status if total else "not reached",
        runs=total,
        completed=completed,
        failed=failed,
        calls=len(calls),
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        output_tokens=output,
        seconds=round(seconds, 3),
        tokens_per_second=round(output / seconds, 1) if seconds and output else None,
        errors=errors,
    )


def tools_of(interactions: Iterable[InteractionResponse]) -> ToolsReport:
    calls, refusals = Counter[str](), Counter[str]()
    kinds, examples = Counter[str](), dict[str, str]()
    for run in interactions:
        requested, results = Counter[str](), Counter[str]()
        for event in run.events:
            if isinstance(event, AnswerEvent):
                requested.update(call.name for call in event.tool_calls)
            elif isinstance(event, ToolResultEvent):
                results[event.name] += 1
                if "error" in (event.result or {}):
                    error = str((event.result or {})["error"])
                    refusals[event.name] += 1
                    kind = refusal_kind(error)
                    kinds[kind] += 1
                    examples.setdefault(kind, f"{event.name}: {error[:_ERROR_CHARACTERS]}")
        # Models write some calls into their text instead of calling.
        calls += requested | results
    return ToolsReport(
        made=calls.total(),
        refused=refusals.total(),
        by_tool=[
            ToolReport(tool=tool, made=calls[tool], refused=refusals[tool])
            for tool in sorted({*calls, *refusals})
        ],
        refusals=[
            RefusalReport(kind=kind, count=count, example=examples[kind])
            for kind, count in kinds.most_common()
        ],
    )


def refusal_kind(text: str) -> str:
    """The beginning of a refusal without names, ids and figures, so that refusals of one kind are counted together."""
    sentence = re.split(r"[;.]\s", text, maxsplit=1)[0]
    without_names = re.sub(r"'[^']*'|\"[^\"]*\"|“[^”]*”|\[[^\]]*\]", "…", sentence)
    return re.sub(r"\b[0-9a-f-]{36}\b|\d+", "…", without_names)[:_KIND_CHARACTERS]


def repairs_of(interactions: Iterable[InteractionResponse]) -> RepairReport:
    events = [
        event for run in interactions for event in run.events if isinstance(event, RepairEvent)
    ]
    by_subject = Counter[str]()
    for event in events:
        by_subject[event.subject] += len(event.repairs)
    examples = [f"{event.subject}: {repair}" for event in events for repair in event.repairs]
    return RepairReport(
        total=by_subject.total(), by_subject=dict(by_subject), examples=examples[:EXAMPLES]
    )


def structured_of(recorded: Recorded) -> StructuredReport:
    """Counted from the calls: one with `asks_again` repeats the request of the call before it."""
    failed_steps = {step.id for step in _steps(recorded) if step.status == "failed"}
    failed_runs = {
        run.id
        for run in recorded.interactions
        if run.completed_at is None and run.step_id in failed_steps
    }
    corrected = {run.id: _corrected_answers(run) for run in recorded.interactions}
    of_run: dict[UUID, list[CallResponse]] = defaultdict(list)
    for call in sorted(recorded.calls, key=lambda call: call.started_at):
        if call.request.get("structured") and call.answered_at is not None:
            of_run[call.interaction_id].append(call)
    first_try = after_repair = failures = 0
    for run_id, calls in of_run.items():
        is_first_request = [not call.request.get("asks_again") for call in calls]
        answers = sum(is_first_request)
        again = sum(previous and not current for previous, current in pairwise(is_first_request))
        gave_up = int(run_id in failed_runs and not is_first_request[-1])
        repaired = min(again - gave_up + corrected.get(run_id, 0), answers - gave_up)
        failures += gave_up
        after_repair += repaired
        first_try += answers - gave_up - repaired
    return StructuredReport(first_try=first_try, after_repair=after_repair, failed=failures)


def _corrected_answers(run: InteractionResponse) -> int:
    """How many answers, not tool calls, code corrected."""
    answers = (event for event in run.events if isinstance(event, AnswerEvent))
    tools = {call.name for answer in answers for call in answer.tool_calls}
    subjects = {event.subject for event in run.events if isinstance(event, RepairEvent)}
    return len(subjects - tools)


def graph_of(recorded: Recorded) -> GraphReport:
    kinds = Counter(node.type for node in recorded.nodes)
    conclusion_count = kinds[ANALYSIS_TYPE] + kinds[ADVICE_TYPE]
    return GraphReport(
        nodes=len(recorded.nodes) - conclusion_count,
        edges=len(recorded.edges),
        evidence=recorded.verified.checked.evidence if recorded.verified else 0,
        analyses=kinds[ANALYSIS_TYPE],
        advice=kinds[ADVICE_TYPE],
    )


def facts_of(recorded: Recorded, check: FactCheck) -> FactsReport:
    """Every property of every node and edge but those of conclusions."""
    by_judgement: dict[Judgement, list[CheckedFact]] = defaultdict(list)
    for prop in _properties(recorded):
        judgement, stated = check.check(prop)
        edge = f" — {prop.about} → {prop.other}" if prop.about else ""
        fact = CheckedFact(
            element=f"{prop.subject}{edge}",
            property=prop.property,
            written=str(prop.value)[:_ERROR_CHARACTERS],
            stated=stated and stated[:_ERROR_CHARACTERS],
        )
        by_judgement[judgement].append(fact)
    right, wrong = by_judgement[Judgement.RIGHT], by_judgement[Judgement.WRONG]
    return FactsReport(
        right=len(right),
        wrong=len(wrong),
        not_checkable=len(by_judgement[Judgement.NOT_CHECKABLE]),
        wrong_examples=wrong[:EXAMPLES],
        right_examples=right[:EXAMPLES],
    )


def _properties(recorded: Recorded) -> Iterator[WrittenProperty]:
    for node in recorded.nodes:
        if node.type not in (ANALYSIS_TYPE, ADVICE_TYPE):
            for name, value in node.properties.items():
                yield WrittenProperty(node.name, name, value, siblings=node.properties)
    conclusions = {node.id for node in recorded.nodes if node.type in (ANALYSIS_TYPE, ADVICE_TYPE)}
    for edge in recorded.edges:
        if not conclusions & {edge.source_id, edge.target_id}:
            for name, value in edge.properties.items():
                yield WrittenProperty(
                    edge.source_name, name, value, edge.type, edge.target_name, edge.properties
                )


def verification_of(result: AgentVerified | None) -> VerificationReport | None:
    if result is None:
        return None
    return VerificationReport(
        holds=result.holds,
        checked=result.checked,
        broken=result.broken,
        in_doubt=result.in_doubt,
        breaks=[f"{link.link} {link.name}: {link.message}" for link in result.breaks[:EXAMPLES]],
    )


def verdict_of(
    run: Run,
    phases: Sequence[PhaseReport],
    structured: StructuredReport,
    repairs: RepairReport,
    graph: GraphReport,
    facts: FactsReport,
    verification: VerificationReport | None,
) -> Verdict:
    """The verdict in plain words, with its reasons."""
    by_phase = {phase.phase: phase for phase in phases}
    bad = [phase.phase for phase in phases if phase.failed or phase.status == "unfinished"]
    asked, ended = run.iterations_asked, run.iterations_completed + run.iterations_failed
    is_cut_off = run.ended != "finished" and ended < max(asked, 1)
    has_evidence = bool(graph.nodes and graph.evidence)
    most_wrong = facts.wrong > facts.right and facts.wrong + facts.right >= _LEAST_CHECKED
    is_broken = verification is not None and not verification.holds
    is_unconfigured = by_phase[Phase.CONFIGURATION].status == "failed"
    cases: Sequence[tuple[bool, _Word, str]] = (
        (run.ended == "budget" or is_cut_off, "not finished", _WHY_ENDED.get(run.ended, "")),
        (is_unconfigured, "not usable", "configuration failed"),
        (bool(asked) and not run.iterations_completed, "not usable", "no iteration completed"),
        (
            bool(asked) and not has_evidence,
            "not usable",
            "it wrote nothing with evidence to the graph",
        ),
        (most_wrong, "not usable", "most checkable facts are wrong"),
        (is_broken, "not usable", "what it wrote is broken"),
        (bool(bad), "usable in part", f"failures in {', '.join(bad)}"),
        (
            bool(structured.after_repair or repairs.total),
            "usable with repairs",
            "every phase worked",
        ),
        (True, "usable", "every phase that was reached worked"),
    )
    word, why = next((word, why) for applies, word, why in cases if applies)
    reasons = list(_reasons(phases, structured, repairs, facts, graph))
    return Verdict(word=word, sentence=f"{word}: {why}", reasons=reasons)


_WHY_ENDED: Final = {
    "time_limit": "the time limit was reached",
    "interrupted": "it was interrupted",
    "budget": "the budget is used up",
    "failed": "the trial itself failed",
}


def _reasons(
    phases: Sequence[PhaseReport],
    structured: StructuredReport,
    repairs: RepairReport,
    facts: FactsReport,
    graph: GraphReport,
) -> Iterator[str]:
    for phase in phases:
        if phase.failed:
            error = f": {phase.errors[-1]}" if phase.errors else ""
            yield f"{phase.phase}: {phase.failed} of {phase.runs} runs failed{error}"
        elif phase.status == "unfinished":
            yield f"{phase.phase}: {phase.runs - phase.completed} of {phase.runs} runs did not end"
    yield f"{graph.nodes} nodes and {graph.edges} edges with {graph.evidence} quotes as evidence"
    if structured.after_repair or structured.failed:
        answers = structured.first_try + structured.after_repair + structured.failed
        yield (
            f"of {answers} structured answers, {structured.first_try} were valid at once, "
            f"{structured.after_repair} after a repair and {structured.failed} never"
        )
    if repairs.total:
        by_subject = ", ".join(f"{name} {count}" for name, count in repairs.by_subject.items())
        yield f"{repairs.total} repairs by code: {by_subject}"
    if checked := facts.right + facts.wrong:
        yield f"{facts.right} of {checked} checkable facts are right"
    if unreached := [phase.phase for phase in phases if phase.status == "not reached"]:
        yield f"not reached: {', '.join(unreached)}"
