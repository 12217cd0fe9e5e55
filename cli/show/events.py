"""Events of the bus, a line each."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from rich.markup import escape

from cli.show.words import ago, clip, counted
from shared.events import models
from shared.events.envelope import Event
from shared.events.tail import Told

LONG_AGO_SECONDS: Final = 5.0
"""What is older is told with its age."""

_STYLES: Final[Mapping[str, str]] = {
    "requested": "blue",
    "started": "agent",
    "produced": "magenta",
    "completed": "good",
    "failed": "bad",
}


def line_of(told: Told, agent_name: str) -> str:
    """Time, age, event, agent, and what it says; in console markup."""
    verb = told.subject.rpartition(".")[2]
    style = _STYLES.get(verb, "quiet")
    age_seconds = (datetime.now(UTC) - told.told_at).total_seconds()
    age = ago(told.told_at) if age_seconds > LONG_AGO_SECONDS else ""
    clock = told.told_at.astimezone().strftime("%H:%M:%S")
    what = "cannot be read by this version" if told.event is None else summary(told.event)
    return (
        f"[quiet]{clock} {age:>10}[/]  [{style}]{told.subject:<20}[/] "
        f"[agent]{escape(clip(agent_name, 28))}[/]  {escape(what)}"
    )


def summary(event: Event) -> str:
    """What the event says, in a few words."""
    match event:
        case models.IterationStarted():
            why = "asked for" if event.why == "run_now" else "due"
            return f"iteration {event.number}, {why}"
        case models.PlanProduced():
            return f"{counted(event.queries, 'query')}, {counted(event.insights, 'insight')}"
        case models.QueryRequested():
            return clip(event.query.objective, 90)
        case models.QueryCompleted():
            return f"{counted(event.nodes, 'node')}, {counted(event.edges, 'edge')}"
        case models.InsightRequested():
            return clip(event.insight.observation, 90)
        case models.InsightCompleted():
            missing = f"; missing: {clip('; '.join(event.missing), 70)}" if event.missing else ""
            return f"{counted(event.analyses, 'analysis')}{missing}"
        case models.AnalysisProduced():
            return f"{counted(len(event.analysis_ids), 'analysis')} to weigh"
        case models.AdviceProduced():
            return f"{event.action}: see `vigil inbox`"
        case models.AdviceCompleted():
            return counted(event.advice, "advice")
        case models.IterationCompleted():
            return _ended(event)
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
            return "to be made from its mission"
        case models.ConfigurationCompleted():
            return "ready"
        case models.AnswerRequested():
            return "somebody has written to it"
        case models.AnswerCompleted():
            return "it has answered: see `vigil chat`"
        case _:
            return ""


def _ended(event: models.IterationCompleted) -> str:
    kinds = (
        (event.queries, "query"),
        (event.insights, "insight"),
        (event.analyses, "analysis"),
        (event.advice, "advice"),
    )
    told = ", ".join(counted(number, noun) for number, noun in kinds if number) or "nothing to do"
    errors = f"; {counted(len(event.errors), 'error')}" if event.errors else ""
    return f"iteration {event.number}: {told}{errors}"


def short(agent_id: UUID) -> str:
    """For an agent whose name is not known, as after its end."""
    return str(agent_id)[:8]
