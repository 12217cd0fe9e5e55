"""The one stream and the one durable consumer of each actor, as plain values.

Publishers, subscribers, provisioning, readiness and documents all read them here.
"""

from dataclasses import dataclass
from typing import Final

from shared.events import models
from shared.events.envelope import Event

STREAM: Final = "VIGIL"

DUPLICATE_WINDOW_SECONDS: Final = 120
"""An optimisation only: what keeps effects single are the unique keys in Postgres."""


@dataclass(frozen=True)
class Consumer:
    """A durable pull consumer. Replicas of an actor pull on the same one."""

    actor: str
    hears: tuple[type[Event], ...]
    ack_wait_seconds: float = 20.0
    """When a message whose handler has died comes again; whoever works on one asks for more time four times in that."""
    max_ack_pending: int = 1000

    @property
    def subjects(self) -> list[str]:
        return [event.subject for event in self.hears]


CONSUMERS: Final[dict[str, Consumer]] = {
    consumer.actor: consumer
    for consumer in (
        Consumer(
            "scheduler",
            (models.IterationCompleted, models.IterationFailed, models.ConfigurationCompleted),
        ),
        Consumer("observer", (models.IterationStarted,)),
        Consumer("researcher", (models.QueryRequested,)),
        Consumer(
            "aggregator",
            (
                models.PlanProduced,
                models.PlanFailed,
                models.QueryCompleted,
                models.QueryFailed,
                models.InsightCompleted,
                models.InsightFailed,
                models.AdviceCompleted,
                models.AdviceFailed,
            ),
        ),
        Consumer("analyzer", (models.InsightRequested,)),
        Consumer("adviser", (models.AnalysisProduced,)),
        Consumer("assistant", (models.ConfigurationRequested, models.AnswerRequested)),
        Consumer("notifier", (models.AdviceProduced,)),
    )
}

PUBLISHES: Final[dict[str, tuple[type[Event], ...]]] = {
    # Its reconciler says again whatever the state implies, and any message that was kept as a dead letter.
    "scheduler": models.EVENTS,
    "observer": (models.PlanProduced, models.PlanFailed, models.QueryRequested),
    "researcher": (models.QueryCompleted, models.QueryFailed),
    "aggregator": (
        models.QueryRequested,
        models.InsightRequested,
        models.AnalysisProduced,
        models.IterationCompleted,
        models.IterationFailed,
    ),
    "analyzer": (models.InsightCompleted, models.InsightFailed),
    "adviser": (models.AdviceProduced, models.AdviceCompleted, models.AdviceFailed),
    "assistant": (
        models.ConfigurationCompleted,
        models.ConfigurationFailed,
        models.AnswerRequested,
        models.AnswerCompleted,
        models.AnswerFailed,
    ),
    # What people order is told as a hint, once it is committed.
    "api": (models.ConfigurationRequested, models.AnswerRequested),
    "notifier": (),
}


def subject_roots() -> list[str]:
    """The stream's subjects: every kind of event, old versions and new ones alike."""
    return sorted({f"{event.subject.split('.')[0]}.*" for event in models.EVENTS})
