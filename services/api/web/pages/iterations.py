"""Pages of iterations: list, waterfall with details, phase run, comparison."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.queries import iterations, retention, transcripts, usage
from services.api.routers.iterations import Number, missing_iteration
from services.api.web.forms import UNLESS_BLANK
from services.api.web.presenters.comparison import (
    Side,
    compare_figures,
    compare_phases,
    compare_plans,
    comparison_side,
)
from services.api.web.presenters.costs import prompt_parts
from services.api.web.presenters.outcomes import (
    STRIP_KEYS,
    build_strip,
    cause_of,
    outcome_of,
    problems_of,
    seconds_of,
)
from services.api.web.presenters.waterfall import (
    Key,
    build_waterfall,
    parse_key,
    step_name,
    step_text,
)
from services.api.web.rendering import PageResponse
from shared.enums import CallKind, IterationStatus, RetentionKind, StepKind
from shared.runtime.settings import Settings
from shared.schemas.base import IterationSummary, PageRequest
from shared.schemas.iterations import IterationOutline, IterationTrace, plan_notes, step_notes
from shared.telemetry.tracing import trace_id_of
from shared.workflow.iterations import database_time

router = APIRouter(prefix="/agents/{agent}")

MAX_SUPERSEDED: Final = 20
"""The limit of nodes and of edges."""
STRIP: Final = 100
"""Iterations in the strip above the list."""
FEW_ROWS: Final = 60
"""A waterfall with more rows than these begins with its steps only."""

_LARGEST: Final = 2**31 - 1
IterationNumber = Annotated[int | None, Query(ge=1, le=_LARGEST)]
ChosenNumbers = Annotated[
    list[Annotated[int, Field(ge=1, le=_LARGEST)]] | None, Query(alias="n", max_length=100)
]


class OutcomeFilter(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    QUIET = "quiet"
    FAILED = "failed"
    STOPPED = "stopped"
    """By a daily budget."""


StateFilter = Annotated[OutcomeFilter | None, UNLESS_BLANK, Query()]


@router.get("/iterations")
async def list_iterations(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    status: StateFilter = None,
    first: IterationNumber = None,
    last: IterationNumber = None,
) -> HTMLResponse:
    """Lists iterations, with consecutive quiet ones as one row; with `first` and `last`, these quiet ones."""
    if first is not None and last is not None:
        context = await _quiet_context(access, page_request, (first, last))
    elif status is not None:
        context = await _filtered_context(access, page_request, status)
    else:
        context = await _groups_context(access, page_request)
    has_strip = page.part in (None, "strip")
    strip = (
        await iterations.list_outcomes(access.session, access.owner_id, access.agent.id, STRIP)
        if has_strip
        else []
    )
    return await page.answer(
        "iterations/list.html",
        agent=access.agent,
        is_first=page_request.cursor is None,
        state=status,
        states=list(OutcomeFilter),
        within=None if first is None or last is None else (first, last),
        strip=build_strip(strip),
        strip_keys=STRIP_KEYS,
        outcome_of=outcome_of,
        cause_of=cause_of,
        seconds_of=seconds_of,
        **context,
    )


async def _groups_context(access: AgentAccess, page_request: PageRequest) -> dict[str, Any]:
    groups = await iterations.list_groups(
        access.session, access.owner_id, access.agent.id, page_request
    )
    single = [group.iteration for group in groups.items if group.iteration is not None]
    return {
        "groups": groups.items,
        "next": groups.next,
        **await _sums_context(access, [row.id for row in single]),
    }


async def _filtered_context(
    access: AgentAccess, page_request: PageRequest, state: OutcomeFilter
) -> dict[str, Any]:
    is_stopped = {OutcomeFilter.STOPPED: True, OutcomeFilter.FAILED: False}.get(state)
    status = IterationStatus.FAILED if state is OutcomeFilter.STOPPED else IterationStatus(state)
    rows = await iterations.list_iterations(
        access.session,
        access.owner_id,
        access.agent.id,
        page_request,
        status=status,
        is_stopped=is_stopped,
    )
    return {
        "groups": [iterations.group_of_one(row) for row in rows.items],
        "next": rows.next,
        **await _sums_context(access, [row.id for row in rows.items]),
    }


async def _quiet_context(
    access: AgentAccess, page_request: PageRequest, within: tuple[int, int]
) -> dict[str, Any]:
    rows = await iterations.list_iterations(
        access.session,
        access.owner_id,
        access.agent.id,
        page_request,
        status=IterationStatus.QUIET,
        within=within,
    )
    return {
        "groups": [iterations.group_of_one(row) for row in rows.items],
        "next": rows.next,
        **await _sums_context(access, [row.id for row in rows.items]),
    }


async def _sums_context(access: AgentAccess, ids: Sequence[UUID]) -> dict[str, Any]:
    return {"sums": await usage.sum_iterations(access.session, ids)}


@router.get("/iterations/{number}")
async def show_iteration(
    request: Request,
    access: OwnedAgent,
    page: PageResponse,
    number: Number,
    opened: Annotated[str | None, Query(alias="open", max_length=80)] = None,
    rows: Literal["steps", "all"] | None = None,
) -> HTMLResponse:
    """Shows the waterfall; `open` is the key of a row, whose details stand beside it."""
    session, agent = access.session, access.agent
    trace = await iterations.find_trace(session, access.owner_id, agent.id, number)
    if trace is None:
        raise await missing_iteration(access, number)
    now = await database_time(session)
    waterfall = build_waterfall(trace, now)
    newest = await _newest_numbers(access, 1)
    return await page.answer(
        "iterations/one.html",
        agent=agent,
        iteration=trace,
        now=now,
        newest=newest[0],
        outcome=outcome_of(trace),
        problems=problems_of(trace),
        notes=_notes(trace),
        trace_href=_trace_href(request, trace),
        waterfall=waterfall,
        shows_all=rows == "all" or (rows is None and len(waterfall.rows) <= FEW_ROWS),
        is_part=page.part is not None,
        details=None if opened is None else await _details(access, trace, opened),
        transcript_days=await _transcript_days(access, trace),
        opened=opened,
    )


def _trace_href(request: Request, trace: IterationTrace) -> str | None:
    """Where the OpenTelemetry trace of the iteration is shown; None if VIGIL_TRACE_URL is not set."""
    settings: Settings = request.app.state.settings
    if settings.trace_url is None:
        return None
    return settings.trace_url.replace("{trace_id}", trace_id_of(trace.id))


def _notes(trace: IterationTrace) -> list[str]:
    """Why the iteration called a model or did not, in words."""
    observe = next((step for step in trace.steps if step.kind == StepKind.OBSERVE), None)
    return [] if observe is None else plan_notes(observe.result or {})


async def _details(access: AgentAccess, trace: IterationTrace, opened: str) -> dict[str, Any]:
    """Returns the context of the details of a row. Raises NotFoundError."""
    key = parse_key(opened)
    if key is None:
        raise NotFoundError("row", opened)
    match key.kind:
        case "iteration" | "start" as kind:
            return {"kind": kind}
        case "step":
            return await _step_details(access, trace, key)
        case "run":
            return await _run_details(access, trace, key.id)
        case _:
            return await _call_details(access, trace, key)


async def _step_details(access: AgentAccess, trace: IterationTrace, key: Key) -> dict[str, Any]:
    step = next((step for step in trace.steps if step.id == key.id), None)
    if step is None:
        raise NotFoundError("step", key.id)
    return {
        "kind": "step",
        "step": step,
        "name": step_name(step),
        "text": step_text(step),
        "notes": step_notes(step),
        "runs": [run for run in trace.runs if run.step_id == step.id],
        "written": [item for item in trace.written if item.step_id == step.id],
        "sources": await transcripts.sources_of_step(access.session, access.agent.id, step.id),
    }


async def _run_details(access: AgentAccess, trace: IterationTrace, run_id: UUID) -> dict[str, Any]:
    run = await transcripts.find_phase_run(access.session, access.owner_id, run_id)
    if run is None or run.iteration_id != trace.id:
        raise NotFoundError("phase run", run_id)
    calls = [call for call in trace.calls if call.interaction_id == run.id]
    return {"kind": "run", "run": run, "calls": calls}


async def _call_details(access: AgentAccess, trace: IterationTrace, key: Key) -> dict[str, Any]:
    call = await transcripts.find_call(access.session, access.owner_id, trace.id, key.id)
    if call is None:
        raise NotFoundError("call", key.id)
    run = next(run for run in trace.runs if run.id == call.interaction_id)
    context: dict[str, Any] = {"kind": "call", "call": call, "run": run}
    if call.kind == CallKind.SEARCH:
        results = (call.answer or {}).get("results") or []
        urls = [str(result.get("url")) for result in results if isinstance(result, dict)]
        sources = await transcripts.source_ids(access.session, access.agent.id, urls)
        return {**context, "kind": "search", "results": results, "sources": sources}
    turns = await transcripts.list_answers(access.session, access.owner_id, run.id) or []
    place, turn = next(
        ((place, turn) for place, turn in enumerate(turns, 1) if turn.call_id == call.id),
        (0, None),
    )
    context |= {"turn": turn, "place": place, "prompt_parts": prompt_parts(call)}
    if key.kind == "call":
        details = await transcripts.find_phase_run(access.session, access.owner_id, run.id)
        return {**context, "phase_run": details}
    if trace.transcripts_deleted_at is not None:
        # Which tools it used is not known any more.
        return {**context, "phase_run": None}
    traced = next(each for each in trace.calls if each.id == call.id)
    if turn is None or key.place >= len(traced.tools):
        raise NotFoundError("tool", key.id)
    tool = traced.tools[key.place]
    uses = [use for use in turn.tool_uses if use.name == tool.name]
    return {**context, "kind": "tool", "tool": tool, "uses": uses}


@router.get("/iterations/{number}/runs/{interaction_id}")
async def show_run(
    access: OwnedAgent, page: PageResponse, number: Number, interaction_id: UUID
) -> HTMLResponse:
    """Shows the transcript of a phase run."""
    run = await transcripts.find_phase_run(access.session, access.owner_id, interaction_id)
    answers = await transcripts.list_answers(access.session, access.owner_id, interaction_id)
    head = await iterations.find_head(access.session, access.owner_id, access.agent.id, number)
    if head is None:
        raise await missing_iteration(access, number)
    if run is None or answers is None or run.iteration_id != head.id:
        raise NotFoundError("phase run", interaction_id)
    return await page.answer(
        "iterations/run.html",
        agent=access.agent,
        iteration=head,
        run=run,
        transcript=answers,
        transcript_days=await _transcript_days(access, head),
    )


async def _transcript_days(access: AgentAccess, iteration: IterationSummary) -> float | None:
    """Returns how long transcripts are kept, if that of the iteration is not there any more."""
    if iteration.transcripts_deleted_at is None:
        return None
    return await retention.days_of(access.session, RetentionKind.TRANSCRIPTS)


@router.get("/compare")
async def compare_iterations(
    access: OwnedAgent,
    page: PageResponse,
    a: IterationNumber = None,
    b: IterationNumber = None,
    chosen: ChosenNumbers = None,
) -> HTMLResponse:
    """Compares two iterations, the earlier first: `a` and `b`, or two of those chosen in the list, or the newest two."""
    newest = await _newest_numbers(access, 2)
    if chosen and len(chosen) > 1:
        a, b = chosen[:2]
    numbers = sorted({a or newest[-1], b or newest[0]}) if newest else []
    outlines = [await _find_iteration(access, number) for number in numbers]
    sums = await usage.sum_phases(access.session, [outline.id for outline in outlines])
    pair: dict[str, Any] = {"figures": [], "phases": [], "plan": []}
    if len(outlines) == 2:
        before, after = outlines
        pair = {
            "figures": compare_figures(before, after),
            "phases": compare_phases(sums[before.id], sums[after.id]),
            "plan": compare_plans(before, after),
        }
    return await page.answer(
        "iterations/compare.html",
        agent=access.agent,
        sides=[await _side(access, iteration) for iteration in outlines],
        newest=max(newest, default=0),
        outcome_of=outcome_of,
        **pair,
    )


async def _side(access: AgentAccess, iteration: IterationOutline) -> Side:
    superseded = await iterations.list_superseded(
        access.session, access.owner_id, access.agent.id, iteration.id, limit=MAX_SUPERSEDED
    )
    return comparison_side(iteration, superseded)


async def _newest_numbers(access: AgentAccess, many: int) -> list[int]:
    """Returns the numbers of the newest iterations, newest first."""
    page_request = PageRequest(limit=many)
    iterations_page = await iterations.list_iterations(
        access.session, access.owner_id, access.agent.id, page_request
    )
    return [row.number for row in iterations_page.items]


async def _find_iteration(access: AgentAccess, number: int) -> IterationOutline:
    outline = await iterations.find_outline(
        access.session, access.owner_id, access.agent.id, number
    )
    if outline is None:
        raise await missing_iteration(access, number)
    return outline
