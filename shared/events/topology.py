"""The stream and the durable consumer of each service, as plain values.

Publishers, subscribers, provisioning, readiness checks and documents all use them.
"""

from dataclasses import dataclass
from typing import Final

from shared.events import models
from shared.events.envelope import Event

STREAM: Final = "VIGIL"
STORE_FAULT: Final = "NATS cannot store messages"
"""First words of the fault of a service whose messages are not stored."""

DUPLICATE_WINDOW_SECONDS: Final = 120
"""Only an optimization: effects happen once because of unique keys in PostgreSQL."""


@dataclass(frozen=True)
class Consumer:
    """A durable pull consumer, shared by all replicas of a service."""

    service: str
    subscribes_to: tuple[type[Event], ...]
    ack_wait_seconds: float = 20.0
    """When a message whose handler died is redelivered; a running handler sends four heartbeats in that time."""
    max_ack_pending: int = 1000

    @property
    def subjects(self) -> list[str]:
        return [event.subject for event in self.subscribes_to]


CONSUMERS: Final[dict[str, Consumer]] = {
    consumer.service: consumer
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
    # Its reconciler republishes any event that the state implies, and any dead letter.
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
    # Events of user commands, published as a hint after the commit.
    "api": (models.ConfigurationRequested, models.AnswerRequested),
    "notifier": (),
}


def subject_roots() -> list[str]:
    """The subjects of the stream: every kind of event, in all versions."""
    return sorted({f"{event.subject.split('.')[0]}.*" for event in models.EVENTS})
