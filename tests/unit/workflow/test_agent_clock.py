"""What an agent takes for now, with and without an archive date."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from shared.workflow.agent_clock import AgentClock, is_later

REAL = datetime(2026, 11, 29, 9, 30, tzinfo=UTC)
ARCHIVE = date(2024, 3, 1)
EAST = timezone(timedelta(hours=9))


def test_without_an_archive_date_now_is_the_real_time() -> None:
    clock = AgentClock(REAL)
    assert (clock.now, clock.today) == (REAL, date(2026, 11, 29))
    assert clock.at(REAL - timedelta(hours=1)) == REAL - timedelta(hours=1)


@pytest.mark.parametrize("moment", [REAL, REAL - timedelta(days=3)])
def test_with_an_archive_date_each_day_ends_on_it(moment: datetime) -> None:
    clock = AgentClock(moment, ARCHIVE)
    assert (clock.today, f"{clock.now:%Y-%m-%dT%H:%MZ}") == (ARCHIVE, "2024-03-01T23:59Z")
    assert clock.at(REAL) == clock.now


@pytest.mark.parametrize(
    ("published", "archive_date", "expected"),
    [
        (datetime(2024, 3, 1, tzinfo=UTC), ARCHIVE, False),
        (datetime(2024, 3, 1, 23, 59, 59, tzinfo=UTC), ARCHIVE, False),
        (datetime(2024, 3, 2, tzinfo=UTC), ARCHIVE, True),
        (datetime(2024, 3, 2, 8, tzinfo=EAST), ARCHIVE, False),
        (datetime(2024, 3, 2, 9, tzinfo=EAST), ARCHIVE, True),
        (None, ARCHIVE, False),
        (datetime(2999, 1, 1, tzinfo=UTC), None, False),
    ],
)
def test_a_page_is_later_from_the_next_day_on(
    published: datetime | None, archive_date: date | None, expected: bool
) -> None:
    assert is_later(published, archive_date) is expected
