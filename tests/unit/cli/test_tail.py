"""Subject patterns of `vigil tail`, and the line printed for each event."""

from datetime import UTC, datetime, timedelta

import pytest

from cli.commands.events import subject_pattern
from cli.errors import BadInputError
from cli.render.events import line_of, summary
from shared.events.envelope import Event
from shared.events.stream_reader import StoredEvent
from tests.support.case_files import read_cases
from tests.support.contracts.samples import samples

CASES = read_cases(__file__)


@pytest.mark.parametrize(("text", "pattern"), CASES["a_noun_alone_means_all_of_its_events"])
def test_a_noun_alone_means_all_of_its_events(text: str, pattern: str) -> None:
    assert subject_pattern(text) == pattern


@pytest.mark.parametrize("text", ["queries", "*.done", "query.completed.now", "", "a b"])
def test_an_unknown_pattern_is_rejected_with_the_valid_subjects(text: str) -> None:
    with pytest.raises(BadInputError, match=r"iteration\.started"):
        subject_pattern(text)


@pytest.mark.parametrize("event", list(samples()), ids=lambda event: event.subject)
def test_every_event_has_a_summary(event: Event) -> None:
    assert summary(event)


def test_old_and_unreadable_events_have_a_line() -> None:
    now = datetime.now(UTC)
    unreadable = StoredEvent(1, "query.dreamt", now - timedelta(minutes=10), b"{}")
    line = line_of(unreadable, "Lithium [watch]")
    assert all(word in line for word in ("10 min ago", "query.dreamt", "cannot read this event"))
    assert r"Lithium \[watch]" in line  # a name is no markup
    assert "ago" not in line_of(StoredEvent(2, "query.dreamt", now, b"{}"), "Lithium")
