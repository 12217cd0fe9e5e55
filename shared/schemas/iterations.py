"""Schemas of iterations: lists, progress, phase runs."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import Field

from shared.enums import CheckFailure, StepKind, StepStatus, WorkReason
from shared.schemas.base import (
    CallTotals,
    FailedSending,
    IterationSummary,
    Json,
    ResponseModel,
    RunningCall,
    StepResponse,
)

REASON_WORDS: Final[Mapping[str, str]] = {
    WorkReason.FIRST: "this is the first iteration",
    WorkReason.ERRORS: "the last iteration had errors",
    WorkReason.LEARNED: "the last iteration found something new",
    WorkReason.CONTINUED: "the last plan may need a second iteration",
    WorkReason.DATA_REQUESTED: "an analysis lacks data",
    WorkReason.GRAPH_EMPTY: "the graph is empty",
    WorkReason.RUN_REQUESTED: "the owner requested a run",
    WorkReason.RESUMED: "its worker was interrupted",
    WorkReason.OWNER_ACTED: "the owner made a change",
    WorkReason.SEARCH_DUE: "a search is due",
    WorkReason.NEWS: "pages have changed or are new",
}
"""Without DUE: its words are the texts of what is due."""
NOTES_KEY: Final = "notes"
"""Notes of a step's result for the owner, such as pages that were left out."""
SERVER_NOTE: Final = "The server of "
"""Beginning of the notes about the server of a model, which the agent's page and `vigil doctor` repeat."""
UNREAD_CALLS: Final = (
    "returns tool calls as text that cannot be read: its tool-call parser is missing"
)
"""In such a note: without calls an agent writes little or nothing."""


def run_notes(result: Json) -> list[str]:
    """The notes of a step's runs, each once. That a server reports no usage is said of the agent, not of each step."""
    notes = dict.fromkeys(result.get(NOTES_KEY, ()))
    return [each for each in notes if not each.startswith(SERVER_NOTE) or UNREAD_CALLS in each]


def plan_notes(result: Json) -> list[str]:
    """Why an observe step asked the model for a plan or did not, and what its checks found, in words."""
    notes = []
    if result.get("quiet"):
        notes.append("Nothing was new or due, so no model was called.")
    words = [REASON_WORDS[reason] for reason in result.get("reasons", ()) if reason in REASON_WORDS]
    if reasons := [*words, *result.get("due", ())]:
        notes.append(f"Why: {'; '.join(reasons)}.")
    if checked := result.get("pages_checked"):
        failures = result.get("failures", ())
        kinds = Counter(_kind_of(each["error"]) for each in failures)
        kinds[CheckFailure.NOT_REACHED] += result.get("pages_failed", 0) - kinds.total()
        changed, new = result.get("pages_changed", 0), result.get("documents_new", 0)
        found: dict[str, int] = {kind: kinds[kind] for kind in CheckFailure}
        found |= {"changed": changed, "new": new}
        counts = ", ".join(f"{count} {what}" for what, count in found.items() if count)
        notes.append(f"Pages checked: {checked}{f' ({counts})' if counts else ''}.")
        notes.extend(f"{each['url']} is {each['error']}." for each in failures[:MAX_FAILURES])
        if (more := len(failures) - MAX_FAILURES) > 0:
            notes.append(f"{more} more could not be checked: see the sources of the agent.")
    if waiting := result.get("waiting"):
        items = "item waits" if waiting == 1 else "items wait"
        notes.append(f"It planned nothing although {waiting} {items} (news and open requests).")
    if expired := result.get("news_expired"):
        notes.append(f"News that expired: {expired}.")
    return [*notes, *run_notes(result)]


MAX_FAILURES: Final = 5
"""Failed checks that the notes of an iteration name."""


def _kind_of(error: str) -> CheckFailure:
    """The kind of a failed check, with which its error begins."""
    named = (kind for kind in CheckFailure if error.startswith(f"{kind}: "))
    return next(named, CheckFailure.NOT_REACHED)


def step_notes(step: StepResponse) -> list[str]:
    """The results of an observe step, what a completed query did not find, and the notes of a run, in words."""
    result = step.result or {}
    if step.kind == StepKind.OBSERVE:
        return plan_notes(result)
    is_query = step.kind == StepKind.QUERY and step.status == StepStatus.COMPLETED
    return [*(query_notes(result) if is_query else ()), *run_notes(result)]


def query_notes(result: Json) -> list[str]:
    """Statements of the model about data that a completed query did not find."""
    if statements := result.get("not_found"):
        return [f"Not found: {each}" for each in statements]
    return [] if result.get("nodes") or result.get("edges") else ["Nothing was found."]


class PhaseRunResponse(ResponseModel):
    """A phase run without its contents."""

    step_id: UUID | None
    phase: str
    model: str
    answers: int
    """Number of responses of the model."""
    created_at: datetime
    completed_at: datetime | None


class IterationProgress(ResponseModel):
    """The progress of an iteration."""

    iteration: IterationSummary
    now: datetime
    """The database's time; all times here are by the same clock."""
    steps: list[StepResponse]
    """In the order of the stages."""
    runs: list[PhaseRunResponse]
    """In the order of their start."""
    calls: CallTotals
    running_calls: list[RunningCall] = Field(default_factory=list)
    """Oldest first."""


class InteractionHead(ResponseModel):
    """A phase run without its contents."""

    id: UUID
    agent_id: UUID
    iteration_id: UUID | None
    step_id: UUID | None
    phase: str
    model: str
    event_count: int
    created_at: datetime
    completed_at: datetime | None


class InteractionDetails(InteractionHead):
    """With the request; its events are a separate list."""

    system_prompt: str
    request: Json


class CallResponse(ResponseModel):
    """One call of the model or the search service. `request` is a summary for display."""

    id: UUID
    iteration_id: UUID | None
    step_id: UUID
    interaction_id: UUID
    kind: str
    phase: str
    model: str | None
    request: Json
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    """None if the price is not known, or the call is unanswered."""
    failures: list[FailedSending] = Field(default_factory=list)
    """Attempts without a usable response, oldest first."""
    started_at: datetime
    answered_at: datetime | None


class Marked(ResponseModel):
    marked: int
    """Number of inbox items that were unread before."""


class Gained(ResponseModel):
    """What an iteration created and still exists; `nodes` does not include conclusions."""

    nodes: int = 0
    edges: int = 0
    analyses: int = 0
    advice: int = 0


class CallUsage(ResponseModel):
    """`cost_usd` is the cost of responses, `assumed_usd` the maximum cost of attempts without a response and the estimated
    cost of responses without usage.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    assumed_usd: float = 0.0
    unpriced: int = 0
    """Model calls without a known cost: unanswered, or the server reported no usage."""


class IterationSums(ResponseModel):
    """`failed` counts failed steps."""

    queries: int = 0
    insights: int = 0
    failed: int = 0
    gained: Gained = Gained()
    spent: CallUsage = CallUsage()


class WrittenElement(ResponseModel):
    """A node or edge that a step created; an edge's name contains the names of both ends."""

    kind: Literal["node", "edge"]
    id: UUID
    type: str
    name: str
    step_id: UUID | None


class PhaseRun(InteractionHead):
    spent: CallUsage


class TracedStep(StepResponse):
    first_requested_at: datetime | None = None
    """When it was first put on the bus; until `started_at` it waited for a worker."""


class TracedTool(ResponseModel):
    """Uses of one tool of the graph after one answer. Their times are not stored."""

    name: str
    uses: int
    refused: int = 0


class TracedCall(ResponseModel):
    """A call of the ledger without its answer. `request` is a summary for display."""

    id: UUID
    step_id: UUID
    interaction_id: UUID
    kind: str
    phase: str
    model: str | None
    request: Json
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int
    cost_usd: float | None
    assumed_usd: float
    attempts: int
    received_chars: int | None
    failures: list[FailedSending]
    started_at: datetime
    """When its first attempt was recorded, just before it was sent."""
    sent_at: datetime | None
    """When its newest attempt was sent."""
    answered_at: datetime | None
    """When its answer was committed, with what the graph tools of the answer wrote."""
    tools: list[TracedTool] = Field(default_factory=list)
    """Tools of the graph that this answer of the model used, in the order of their first use."""
    repairs: int = 0
    """Number of repairs of the answer by code."""


class IterationTrace(IterationSummary):
    """An iteration with everything that happened in it, without answers of calls."""

    plan: Json | None
    deadline_at: datetime
    steps: list[TracedStep]
    """By round, then in the order of the stages."""
    runs: list[PhaseRun]
    """In the order of their start."""
    sums: IterationSums
    written: list[WrittenElement]
    """The first elements; `sums` counts all."""
    calls: list[TracedCall]
    """In the order in which they were first sent."""


class CallDetails(ResponseModel):
    """A call with its answer, and its input tokens by the part of the request."""

    id: UUID
    interaction_id: UUID
    kind: str
    phase: str
    model: str | None
    request: Json
    answer: Json | None
    """None if it is not answered, or the answer has expired."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int
    reasoning_tokens: int
    system_tokens: int
    tools_tokens: int
    context_tokens: int
    results_tokens: int
    failures: list[FailedSending]
    attempts: int
    started_at: datetime
    sent_at: datetime | None
    answered_at: datetime | None


class SourceName(ResponseModel):
    id: UUID
    url: str
    title: str | None


class IterationGroup(ResponseModel):
    """One iteration, or consecutive quiet ones."""

    first: int
    last: int
    """Numbers; equal for one iteration."""
    many: int
    """How many there are; numbers between the two may have been deleted."""
    started_at: datetime
    """Of the first."""
    ended_at: datetime | None
    """Of the last."""
    iteration: IterationSummary | None
    """None for more than one."""


class IterationOutcome(ResponseModel):
    """An iteration in a strip of many."""

    number: int
    status: str
    is_stopped: bool
    """Failed because a daily budget was reached."""
    started_at: datetime
    ended_at: datetime | None


class ToolUse(ResponseModel):
    """A tool call and its result. `arguments` is as the model wrote it."""

    name: str
    arguments: str
    has_ended: bool
    result: Json | None
    """None if it has not ended, or the call ledger has expired."""
    spent: CallUsage | None
    """For a paid tool."""


class ModelTurn(ResponseModel):
    """One response of the model, with its tool calls."""

    is_kept: bool
    """False if the call ledger has expired, so the response is not known any more."""
    text: str | None
    tool_uses: list[ToolUse]
    failures: list[FailedSending] = Field(default_factory=list)
    """Attempts of the same request without a usable response, oldest first."""
    spent: CallUsage
    call_id: UUID | None = None
    started_at: datetime | None
    answered_at: datetime | None


class SupersededValue(ResponseModel):
    """A property whose value from earlier sources is superseded by one of this iteration. Values are JSON."""

    kind: Literal["node", "edge"]
    id: UUID
    name: str
    property: str
    before: Any
    after: Any
