"""What a step is doing right now, in words."""

import json
from datetime import UTC, datetime
from typing import Final

from cli.show.words import ago, between
from shared.store.reading.shapes import (
    AnswerEvent,
    InteractionView,
    IterationDetails,
    Json,
    RunningCall,
    StepView,
)

LONG_CALL_SECONDS: Final = 10.0
"""After so many it is shown how far the answer to a call has come."""

ACTOR_OF: Final = {
    "observe": "Observer",
    "query": "Researcher",
    "insight": "Analyzer",
    "advise": "Adviser",
}
_THINKS: Final = {
    "observer": "reads the graph and plans",
    "knowledge_acquisition": "asks where to look",
    "graph_construction": "reads the document against the graph",
    "analysis_generation": "weighs the nodes",
    "advice_generation": "weighs the analyses",
}


def step_name(step: StepView) -> str:
    """`query 2`, or `query 4, round 2`; of some kinds there is only one."""
    if step.kind not in ("query", "insight"):
        return step.kind
    again = f", round {round_of(step) + 1}" if round_of(step) else ""
    return f"{step.kind} {step.index + 1}{again}"


def round_of(step: StepView) -> int:
    """0 of what was planned; of what Analyzers lacked, and of their being asked again, the round after it."""
    number = step.input.get("round", 0)
    return number if isinstance(number, int) else 0


def about(step: StepView) -> str:
    """What a query or an insight asks."""
    return str(step.input.get("objective") or step.input.get("observation") or "")


def doing(iteration: IterationDetails, step: StepView) -> str:
    """What `step`, which has not ended, is about."""
    if step.error is not None and step.status == "pending":
        if step.waiting_since is not None:
            return f"waits{_next_try(step.retry_at)}: {step.error}"
        return f"rests, and tries again: {step.error}"
    runs = [each for each in iteration.interactions if each.step_id == step.id]
    if step.status != "running" or not runs:
        return "waits for a worker"
    calls = [call for call in iteration.running_calls if call.step_id == step.id]
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return growth(calls[0])
    return _in_phase(runs[-1])


def waiting(error: str, since: datetime, retry_at: datetime | None) -> str:
    """Why a step waits for a provider, for how long it has, and when it looks again."""
    return f"waiting for {between(since, None)}: {error}{_next_try(retry_at, '; ')}"


def _next_try(retry_at: datetime | None, separator: str = ", ") -> str:
    when = "" if retry_at is None else ago(retry_at)
    return f"{separator}next try {when}" if when.startswith("in ") else ""


def growth(call: RunningCall) -> str:
    """How far the answer to a call has come."""
    took = between(call.sent_at, None)
    if call.kind == "search":
        return f"waiting for the search service, {took}"
    if not call.received_chars:
        return f"waiting for the first token, {took}"
    return f"the answer grows: {call.received_chars:,} characters after {took}"


def age_seconds(call: RunningCall) -> float:
    return (datetime.now(UTC) - call.sent_at).total_seconds()


def _in_phase(run: InteractionView) -> str:
    answers = [event for event in run.events if isinstance(event, AnswerEvent)]
    calls = _tool_calls(answers[-1]) if answers else []
    searches = [each for each in calls if each[0].startswith("tavily")]
    if searches:
        return _searching(*searches[-1])
    written = sum(name.startswith("add") for answer in answers for name, _ in _tool_calls(answer))
    if written:
        return f"writes to the graph ({written} so far)"
    return _THINKS.get(run.phase, run.phase)


def _searching(tool: str, arguments: Json) -> str:
    about = arguments.get("query") or arguments.get("input") or ", ".join(arguments.get("urls", []))
    verb = {"tavilyExtract": "reads", "tavilyResearch": "researches"}.get(tool, "searches")
    return f"{verb} “{about}”"


def _tool_calls(answer: AnswerEvent) -> list[tuple[str, Json]]:
    asked = (answer.message or {}).get("tool_calls") or []
    return [(call["function"]["name"], _arguments(call["function"]["arguments"])) for call in asked]


def _arguments(written: str) -> Json:
    """What the model wrote may be no JSON at all."""
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}
