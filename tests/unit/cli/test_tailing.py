"""Which events a person means, and how each reads on a line."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.commands.events import subject_pattern
from cli.errors import BadInputError
from cli.render.iterations import line_of, summary
from shared.events.envelope import Event
from shared.events.stream_reader import StoredEvent
from tests.support.contracts.samples import samples


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        (">", ">"),
        ("query", "query.*"),
        ("query.*", "query.*"),
        ("*.failed", "*.failed"),
        ("plan.produced", "plan.produced"),
        ("advice.>", "advice.>"),
    ],
)
def test_a_noun_alone_means_all_of_its_events(written: str, pattern: str) -> None:
    assert subject_pattern(written) == pattern


@pytest.mark.parametrize("written", ["queries", "*.done", "query.completed.now", "", "a b"])
def test_a_pattern_that_no_event_can_match_is_refused_with_those_there_are(written: str) -> None:
    with pytest.raises(BadInputError, match=r"iteration\.started"):
        subject_pattern(written)


@pytest.mark.parametrize("event", list(samples()), ids=lambda event: event.subject)
def test_every_event_says_something(event: Event) -> None:
    assert summary(event)


def test_what_is_old_is_told_with_its_age_and_what_is_unreadable_too() -> None:
    now = datetime.now(UTC)
    unreadable = StoredEvent(1, "query.dreamt", now - timedelta(minutes=10), b"{}")
    line = line_of(unreadable, "Lithium [watch]")
    assert all(word in line for word in ("10 min ago", "query.dreamt", "cannot be read"))
    assert r"Lithium \[watch]" in line  # a name is no markup
    assert "ago" not in line_of(StoredEvent(2, "query.dreamt", now, b"{}"), "Lithium")
