"""The clock of an agent: the time that it takes for now in the world.

An agent with an archive date works as if each day were that date. Everything that states now to an agent, or compares dates
of the world for it, uses this clock. Leases, budgets, schedules and timestamps of rows use the database's time.
"""

from datetime import UTC, date, datetime, time
from typing import Final, NamedTuple
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement

ARCHIVE_END_SQL: Final = (
    "(select cast(archive_date + 1 as timestamp) at time zone 'UTC' - interval '1 microsecond'"
    " from agents where id = :of_agent)"
)
"""Like `archive_end`; null for an agent without an archive date."""
NOW_SQL: Final = f"coalesce({ARCHIVE_END_SQL}, statement_timestamp())"
"""Now of the agent `:of_agent`."""
NOW_OF_AGENTS_SQL: Final = (
    "coalesce(cast(agents.archive_date + 1 as timestamp) at time zone 'UTC' - interval '1 microsecond',"
    " statement_timestamp())"
)
"""Now of the agent in a row of `agents`."""


def shown_time_sql(column: str) -> str:
    """SQL for a time of the agent's own work as its prompts state it: at most its now; null if the column is."""
    return f"case when {column} is not null then least({column}, {NOW_SQL}) end"


_CLOCK: Final = CompiledStatement(
    "select clock_timestamp() as real, (select archive_date from agents where id = :of_agent)"
)


class AgentClock(NamedTuple):
    real: datetime
    """The time of the database (UTC)."""
    archive_date: date | None = None

    @property
    def now(self) -> datetime:
        """The agent's now: the end of its archive date, or else the real time."""
        return self.at(self.real)

    @property
    def today(self) -> date:
        """The agent's date (UTC)."""
        return self.now.astimezone(UTC).date()

    def at(self, moment: datetime) -> datetime:
        """The agent's now at the real time `moment`."""
        return moment if self.archive_date is None else archive_end(self.archive_date)


def agent_clock(agent_id: UUID) -> BoundQuery[AgentClock]:
    """The clock of the agent; the real time if it was deleted."""
    return BoundQuery(_CLOCK, {"of_agent": agent_id}, lambda rows: AgentClock(*rows[0]))


def archive_end(archive_date: date) -> datetime:
    """The last microsecond of the day (UTC)."""
    return datetime.combine(archive_date, time.max, UTC)


def is_later(published: datetime | None, archive_date: date | None) -> bool:
    """Whether a page was published after the archive date. One without a known date was not."""
    if published is None or archive_date is None:
        return False
    return published > archive_end(archive_date)
