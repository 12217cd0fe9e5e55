"""Events in a terminal."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from rich.markup import escape

from shared.events import models
from shared.events.envelope import Event
from shared.events.stream_reader import StoredEvent
from shared.wording import ago, clip, plural

MIN_AGE_SHOWN_SECONDS: Final = 5.0
"""Events older than this are shown with their age."""

_STYLES: Final[Mapping[str, str]] = {
    "requested": "blue",
    "started": "agent",
    "produced": "magenta",
    "completed": "good",
    "failed": "bad",
}


def line_of(event: StoredEvent, agent_name: str) -> str:
    """Time, age, subject, agent and summary of an event, in console markup."""
    verb = event.subject.rpartition(".")[2]
    style = _STYLES.get(verb, "quiet")
    age_seconds = (datetime.now(UTC) - event.stored_at).total_seconds()
    age = ago(event.stored_at) if age_seconds > MIN_AGE_SHOWN_SECONDS else ""
    clock = event.stored_at.astimezone().strftime("%H:%M:%S")
    unreadable = "this version of Vigil cannot read this event"
    text = summary(event.event) if event.event else unreadable
    return (
        f"[quiet]{clock} {age:>10}[/]  [{style}]{event.subject:<20}[/] "
        f"[agent]{escape(clip(agent_name, 28))}[/]  {escape(text)}"
    )


def summary(event: Event) -> str:
    """The event in a few words."""
    match event:
        case models.IterationStarted():
            why = "requested" if event.why == "run_now" else "due"
            return f"iteration {event.number}, {why}"
        case models.PlanProduced():
            return f"{plural(event.queries, 'query')}, {plural(event.insights, 'insight')}"
        case models.QueryRequested():
            return clip(event.query.objective, 90)
        case models.QueryCompleted():
            return f"{plural(event.nodes, 'node')}, {plural(event.edges, 'edge')}"
        case models.InsightRequested():
            return clip(event.insight.observation, 90)
        case models.InsightCompleted():
            missing = f"; missing: {clip('; '.join(event.missing), 70)}" if event.missing else ""
            return f"{plural(event.analyses, 'analysis')}{missing}"
        case models.AnalysisProduced():
            return f"{plural(len(event.analysis_ids), 'analysis')} to consider"
        case models.AdviceProduced():
            return f"{event.action}; see `vigil inbox`"
        case models.AdviceCompleted():
            return plural(event.advice, "advice")
        case models.IterationCompleted():
            return _describe_completion(event)
        case models.IterationFailed():
            return f"iteration {event.number}: {clip('; '.join(event.errors), 120)}"
        case (
            models.PlanFailed()
            | models.QueryFailed()
            | models.InsightFailed()
            | models.AdviceFailed()
            | models.ConfigurationFailed()
            | models.AnswerFailed()
        ):
            return clip(event.error, 120)
        case models.ConfigurationRequested():
            return "from its mission"
        case models.ConfigurationCompleted():
            return "ready"
        case models.AnswerRequested():
            return "received a message"
        case models.AnswerCompleted():
            return "answered; see `vigil chat`"
        case _:
            return ""


def _describe_completion(event: models.IterationCompleted) -> str:
    kinds = (
        (event.queries, "query"),
        (event.insights, "insight"),
        (event.analyses, "analysis"),
        (event.advice, "advice"),
    )
    counts = ", ".join(plural(number, noun) for number, noun in kinds if number) or "nothing to do"
    errors = f"; {plural(len(event.errors), 'error')}" if event.errors else ""
    return f"iteration {event.number}: {counts}{errors}"
