"""Pages of iterations: list, waterfall with details, phase run."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.resources.costs.charts import prompt_parts
from services.api.resources.iterations import model, transcripts
from services.api.resources.iterations.api import Number
from services.api.resources.iterations.outcomes import (
    STRIP_KEYS,
    StripBar,
    build_strip,
    cause_of,
    outcome_of,
    problems_of,
    seconds_of,
    step_name,
)
from services.api.resources.iterations.waterfall import Key, build_waterfall, parse_key, step_text
from services.api.resources.operate import retention
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import PageResponse
from shared.enums import CallKind, IterationStatus, RetentionKind, StepKind
from shared.schemas.base import IterationSummary, PageRequest
from shared.schemas.iterations import IterationGroup, IterationTrace, plan_notes, step_notes
from shared.telemetry.tracing import trace_id_of
from shared.workflow.iterations import database_time

router = APIRouter(prefix="/agents/{agent}")

STRIP: Final = 100
"""Iterations in the strip above the list."""
FEW_ROWS: Final = 60
"""A waterfall with more rows than these begins with its steps only."""

IterationNumber = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


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
    within = None if first is None or last is None else (first, last)
    if within is None and status is None:
        listed = await model.list_groups(access, page_request)
        groups: list[IterationGroup] = listed.items
        following = listed.next
    else:
        state = OutcomeFilter.QUIET if within or status is None else status
        is_stopped = {OutcomeFilter.STOPPED: True, OutcomeFilter.FAILED: False}.get(state)
        rows = await model.list_iterations(
            access,
            page_request,
            status=IterationStatus.FAILED if is_stopped else IterationStatus(state),
            is_stopped=is_stopped,
            within=within,
        )
        groups = [model.group_of_one(row) for row in rows.items]
        following = rows.next
    ids = [group.iteration.id for group in groups if group.iteration is not None]
    has_strip = page.part in (None, "strip")
    return await page.answer(
        "iterations/list.html",
        agent=access.agent,
        is_first=page_request.cursor is None,
        state=status,
        states=list(OutcomeFilter),
        within=within,
        strip=await _strip(access) if has_strip else [],
        strip_keys=STRIP_KEYS,
        outcome_of=outcome_of,
        cause_of=cause_of,
        seconds_of=seconds_of,
        groups=groups,
        next=following,
        sums=await model.sum_iterations(access.session, ids),
    )


async def _strip(access: AgentAccess) -> list[StripBar]:
    outcomes = await model.list_outcomes(access, [access.agent.id], STRIP)
    return build_strip(outcomes[access.agent.id])


@router.get("/iterations/{number}")
async def show_iteration(
    access: OwnedAgent,
    page: PageResponse,
    number: Number,
    opened: Annotated[str | None, Query(alias="open", max_length=80)] = None,
    rows: Literal["steps", "all"] | None = None,
) -> HTMLResponse:
    """Shows the waterfall; `open` is the key of a row, whose details stand beside it."""
    trace = await model.get_trace(access, number)
    now = await database_time(access.session)
    waterfall = build_waterfall(trace, now)
    newest = await model.list_iterations(access, PageRequest(limit=1))
    observe = next((step for step in trace.steps if step.kind == StepKind.OBSERVE), None)
    return await page.answer(
        "iterations/one.html",
        agent=access.agent,
        iteration=trace,
        now=now,
        newest=newest.items[0].number,
        outcome=outcome_of(trace),
        problems=problems_of(trace),
        notes=[] if observe is None else plan_notes(observe.result or {}),
        trace_href=page.settings.trace_url
        and page.settings.trace_url.replace("{trace_id}", trace_id_of(trace.id)),
        waterfall=waterfall,
        shows_all=rows == "all" or (rows is None and len(waterfall.rows) <= FEW_ROWS),
        is_part=page.part is not None,
        details=None if opened is None else await _details(access, trace, opened),
        transcript_days=await _transcript_days(access, trace),
        opened=opened,
    )


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
            run = await transcripts.find_phase_run(access, key.id)
            if run.iteration_id != trace.id:
                raise NotFoundError("phase run", key.id)
            calls = [call for call in trace.calls if call.interaction_id == run.id]
            return {"kind": "run", "run": run, "calls": calls}
        case _:
            return await _call_details(access, trace, key)


async def _step_details(access: AgentAccess, trace: IterationTrace, key: Key) -> dict[str, Any]:
    step = next((step for step in trace.steps if step.id == key.id), None)
    if step is None:
        raise NotFoundError("step", key.id)
    return {
        "kind": "step",
        "step": step,
        "name": step_name(step.kind, step.index),
        "text": step_text(step),
        "notes": step_notes(step),
        "runs": [run for run in trace.runs if run.step_id == step.id],
        "written": [item for item in trace.written if item.step_id == step.id],
        "sources": await transcripts.sources_of_step(access, step.id),
    }


async def _call_details(access: AgentAccess, trace: IterationTrace, key: Key) -> dict[str, Any]:
    call = await transcripts.find_call(access, trace.id, key.id)
    run = next(run for run in trace.runs if run.id == call.interaction_id)
    context: dict[str, Any] = {"kind": "call", "call": call, "run": run}
    if call.kind == CallKind.SEARCH:
        results = (call.answer or {}).get("results") or []
        urls = [str(result.get("url")) for result in results if isinstance(result, dict)]
        sources = await transcripts.source_ids(access, urls)
        return {**context, "kind": "search", "results": results, "sources": sources}
    turns = await transcripts.list_answers(access, run.id)
    place, turn = next(
        ((place, turn) for place, turn in enumerate(turns, 1) if turn.call_id == call.id),
        (0, None),
    )
    context |= {"turn": turn, "place": place, "prompt_parts": prompt_parts(call)}
    if key.kind == "call":
        return {**context, "phase_run": await transcripts.find_phase_run(access, run.id)}
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
    head = await model.get_head(access, number)
    run = await transcripts.find_phase_run(access, interaction_id)
    if run.iteration_id != head.id:
        raise NotFoundError("phase run", interaction_id)
    return await page.answer(
        "iterations/run.html",
        agent=access.agent,
        iteration=head,
        run=run,
        transcript=await transcripts.list_answers(access, interaction_id),
        transcript_days=await _transcript_days(access, head),
    )


async def _transcript_days(access: AgentAccess, iteration: IterationSummary) -> float | None:
    """Returns how long transcripts are kept, if that of the iteration is not there any more."""
    if iteration.transcripts_deleted_at is None:
        return None
    return await retention.days_of(access.session, RetentionKind.TRANSCRIPTS)
