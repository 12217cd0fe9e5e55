"""Retention: which rows are deleted when they are old, and what is known of the last time.

The scheduler deletes them (`services.scheduler.pruner`); the API shows them. What is not listed here is kept as long as its
agent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from shared.database.grants import MIN_RETENTION_DAYS
from shared.enums import RetentionKind

DAY: Final = timedelta(days=1)
MIN_DAYS: Final = MIN_RETENTION_DAYS
_MIN_DAYS_OF_KIND: Final = {RetentionKind.NOTICES: 31.0}
"""A notice of a month's budget is written only once because its row is there."""


def min_days(kind: RetentionKind) -> float:
    """How long the kind is kept, whatever the settings."""
    return _MIN_DAYS_OF_KIND.get(kind, MIN_DAYS)


@dataclass(frozen=True)
class RetentionPolicy:
    """After what time each kind is deleted; a kind without one is kept as long as its agent."""

    ages: Mapping[RetentionKind, timedelta] = field(default_factory=dict)
    max_bytes: Mapping[RetentionKind, int] = field(default_factory=dict)
    """How much is kept of a kind. If there is more, the oldest is deleted before its time."""

    @classmethod
    def of_days(
        cls,
        days: Mapping[RetentionKind, float],
        max_bytes: Mapping[RetentionKind, int] | None = None,
    ) -> "RetentionPolicy":
        """Zero days keep the kind for ever, and zero bytes mean that it has no limit of size."""
        return cls(
            {kind: DAY * each for kind, each in days.items() if each},
            {kind: each for kind, each in (max_bytes or {}).items() if each},
        )

    def days(self, kind: RetentionKind) -> float | None:
        age = self.ages.get(kind)
        return None if age is None else age / DAY


@dataclass(frozen=True)
class Described:
    """What a kind is, for people."""

    label: str
    contents: str
    tables: tuple[str, ...]
    """The tables whose size is shown for it."""


DESCRIPTIONS: Final[Mapping[RetentionKind, Described]] = {
    RetentionKind.TRANSCRIPTS: Described(
        "Transcripts",
        "what models were sent and answered, and results of tools; phase runs of conversations as a whole",
        ("llm_interactions",),
    ),
    RetentionKind.ITERATIONS: Described(
        "Iterations",
        "ended iterations with their steps, phase runs, decided news and calls, whose costs stay as sums by day",
        ("iterations", "steps", "calls", "pinned_contexts", "news_items"),
    ),
    RetentionKind.CONTEXTS: Described(
        "Graph contexts", "contexts that no transcript needs", ("contexts",)
    ),
    RetentionKind.PAGES: Described("Pages", "pages that nothing cites", ("sources",)),
    RetentionKind.DELIVERIES: Described(
        "Deliveries", "deliveries that have ended; not what was delivered", ("deliveries",)
    ),
    RetentionKind.NOTICES: Described(
        "Notices", "notices in inboxes; advice stays", ("inbox_items",)
    ),
    RetentionKind.REQUESTS: Described(
        "Requests for data",
        "requests of analyses that were answered, not found or dropped",
        ("investigation_requests",),
    ),
    RetentionKind.DEAD_LETTERS: Described(
        "Dead letters", "messages that failed, unless their retry is requested", ("dead_letters",)
    ),
}
KNOWLEDGE: Final = (
    "graph_nodes",
    "graph_edges",
    "graph_names",
    "evidence",
    "citations",
    "element_numbers",
    "node_embeddings",
    "graph_journal",
    "kept_insights",
    "call_days",
    "budget_days",
)
"""Tables that grow with what an agent knows and has spent. Nothing is deleted from them because of its age."""
