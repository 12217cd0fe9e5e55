"""Agents, iterations, steps, phase runs, dead letters and elements of a graph as the API returns them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

from shared.schemas.base import (
    AgentDetails,
    AnswerEvent,
    CallTotals,
    EdgeResponse,
    InteractionResponse,
    IterationDetails,
    IterationSummary,
    NodeResponse,
    StepResponse,
)
from shared.schemas.operations import DeadLetterResponse, DeadLetterStep
from shared.schemas.provenance import ClaimResponse, EvidenceResponse

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID = UUID(int=7)


def agent(name: str = "Lithium", **changes: Any) -> AgentDetails:
    """An agent that waits for its second iteration."""
    values: dict[str, Any] = {
        "id": ID,
        "name": name,
        "mission": "Watch lithium",
        "status": "ready",
        "fault": None,
        "interval_seconds": 300,
        "active": True,
        "models": {},
        "next_run_at": START,
        "run_requested_at": START,
        "suspended_until": None,
        "iterations_started": 1,
        "created_at": START,
        "updated_at": START,
        "budget_usd_per_day": None,
        "budget_calls_per_day": None,
        "last_iteration": None,
        "trouble": [],
        "prompts": {},
        "prompts_version": 1,
        "configuration": None,
    }
    return AgentDetails.model_validate(values | changes)


def step(kind: str, index: int = 0, status: str = "completed", **values: Any) -> StepResponse:
    defaults: dict[str, Any] = {
        "id": uuid5(ID, f"{kind} {index}"),
        "input": {},
        "result": None,
        "error": None,
        "attempts": 0,
        "republish_count": 0,
        "retry_at": None,
        "started_at": START,
        "ended_at": START + timedelta(seconds=2) if status in ("completed", "failed") else None,
    }
    return StepResponse(kind=kind, index=index, status=status, **(defaults | values))


def iteration(*steps: StepResponse, status: str = "running", **values: Any) -> IterationDetails:
    defaults: dict[str, Any] = {
        "id": ID,
        "agent_id": ID,
        "agent_name": "Lithium",
        "number": 1,
        "why": "due",
        "status": status,
        "stage": "researching",
        "errors": [],
        "started_at": START,
        "ended_at": None if status == "running" else START + timedelta(seconds=9),
        "deadline_at": START + timedelta(minutes=30),
        "plan": None,
        "interactions": [],
        "calls": CallTotals(),
    }
    return IterationDetails(steps=list(steps), **(defaults | values))


def run_of(parent: StepResponse, phase: str, *tool_calls: tuple[str, str]) -> InteractionResponse:
    """Return a phase run of the step, whose one answer calls these tools with these JSON arguments."""
    calls = [
        {"function": {"name": name, "arguments": json_arguments}}
        for name, json_arguments in tool_calls
    ]
    answer = AnswerEvent(
        call_id=ID,
        message={"role": "assistant", "tool_calls": calls},
        finish_reason="tool_calls",
        input_tokens=None,
        output_tokens=None,
    )
    return InteractionResponse(
        id=ID,
        step_id=parent.id,
        phase=phase,
        model="m",
        system_prompt="",
        request={},
        events=[answer] if tool_calls else [],
        created_at=START,
        completed_at=None,
    )


def summary(*errors: str, status: str = "failed", **values: Any) -> IterationSummary:
    """An iteration in a list."""
    defaults: dict[str, Any] = {
        "id": uuid4(),
        "agent_id": uuid4(),
        "number": 3,
        "why": "due",
        "stage": "researching",
        "started_at": START,
        "ended_at": None,
    }
    return IterationSummary(status=status, errors=list(errors), **(defaults | values))


DEAD_STEP = DeadLetterStep(
    id=ID,
    kind="query",
    index=1,
    status="failed",
    iteration_id=ID,
    iteration_number=7,
    iteration_status="completed",
    agent_id=ID,
    agent_name="Tin [bold]",
)


def dead_letter_fields(**values: Any) -> dict[str, Any]:
    """Those of a query that failed."""
    return {
        "id": ID,
        "service": "researcher",
        "subject": "query.requested",
        "code": "llm_quota",
        "error": "it failed",
        "attempts": 3,
        "created_at": START,
        "stored_at": START,
        "retry_requested_at": None,
        "refusal": None,
        "step": None,
        **values,
    }


def dead_letter(**values: Any) -> DeadLetterResponse:
    return DeadLetterResponse(**dead_letter_fields(**values))


def node(name: str, type_name: str = "Country", **values: Any) -> NodeResponse:
    times = {"created_at": START, "updated_at": START}
    return NodeResponse(
        **{"id": uuid5(ID, name), "type": type_name, "name": name, **times, **values}
    )


def edge(type_name: str, source: UUID, target: UUID, **values: Any) -> EdgeResponse:
    defaults: dict[str, Any] = {
        "id": uuid4(),
        "source_name": "one",
        "target_name": "other",
        "properties": {},
        "created_at": START,
        "updated_at": START,
    }
    return EdgeResponse(type=type_name, source_id=source, target_id=target, **(defaults | values))


def quote(*claims: ClaimResponse, **values: Any) -> EvidenceResponse:
    """A quote of a page that supports the claims."""
    defaults: dict[str, Any] = {
        "id": uuid4(),
        "source_id": uuid4(),
        "url": "https://press.example/",
        "title": None,
        "published": None,
        "fetched_at": START,
        "retracted_at": None,
        "first_byte": 0,
        "end_byte": 4,
        "quote": "Said",
        "valid_from": None,
        "valid_to": None,
        "as_of": START,
        "learned_at": START,
    }
    return EvidenceResponse(claims=list(claims), **(defaults | values))
