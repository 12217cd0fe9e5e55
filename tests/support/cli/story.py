"""Factories for agents, iterations, steps and phase runs as the API returns them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from shared.schemas.base import (
    AgentDetails,
    AnswerEvent,
    CallTotals,
    InteractionResponse,
    IterationDetails,
    StepResponse,
)

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
