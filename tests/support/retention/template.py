"""Copies the rows of recorded iterations, with new ids and other times, as if an agent had run them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database
from shared.database.ids import iteration_id
from shared.database.transaction import Transaction

SCHEMA: Final = "recorded"
TABLES: Final = (
    "iterations",
    "steps",
    "llm_interactions",
    "calls",
    "contexts",
    "pinned_contexts",
)
"""In the order in which they are written."""
_OF_ITERATION: Final = {
    "iterations": "row.id = iteration.id",
    "contexts": (
        "row.agent_id = iteration.agent_id and row.created_at >= iteration.started_at"
        " and row.created_at <= iteration.ended_at"
    ),
}
_RECORD_ITERATIONS: Final = f"""
create table {SCHEMA}.chosen as
select row_number() over (order by number) - 1 as k, * from (
  select id, agent_id, number, started_at, ended_at from iterations
  where agent_id = '{{agent}}' and status = 'completed' order by number desc limit {{many}}
) as newest
"""
_COLUMNS: Final = text("""
select table_name, column_name, data_type from information_schema.columns
where table_schema = 'public' and table_name = any(:tables) order by table_name, ordinal_position
""")
_COUNT: Final = text("""
update agents set iterations_started = iterations_started + :many where id = :agent returning iterations_started - :many
""")
# As its calls have been paid for.
_SPEND: Final = text(f"""
insert into budget_days (scope, day, spent_usd, spent_calls)
select scope, cast(:day as date), coalesce(sum(coalesce(cost_usd, 0) + assumed_usd), 0), count(*)
from unnest(array[cast(:agent as uuid), '{INSTALLATION}']) as scope
cross join unnest(cast(:ks as int[])) as each (k) join {SCHEMA}.calls using (k)
group by scope
on conflict (scope, day) do update
set spent_usd = budget_days.spent_usd + excluded.spent_usd, spent_calls = budget_days.spent_calls + excluded.spent_calls
""")


@dataclass(frozen=True)
class Template:
    """Iterations that were recorded from an agent of the database, in a schema of their own."""

    many: int
    copies: Mapping[str, Any]
    """By table, the statement that copies the rows of several iterations."""

    @classmethod
    async def record(cls, database: Database, agent_id: UUID, many: int) -> "Template":
        """The newest completed iterations of the agent, at most `many`."""
        async with database.transaction() as session:
            await session.execute(text(f"create schema {SCHEMA}"))
            await session.execute(text(_RECORD_ITERATIONS.format(agent=agent_id, many=many)))
            for table in TABLES:
                condition = _OF_ITERATION.get(table, "row.iteration_id = iteration.id")
                await session.execute(
                    text(
                        f"create table {SCHEMA}.{table} as select iteration.k, iteration.started_at as begun_at, row.*"
                        f" from {SCHEMA}.chosen as iteration join {table} as row on {condition}"
                    )
                )
                await session.execute(text(f"create index on {SCHEMA}.{table} (k)"))
            found = await session.scalar(text(f"select count(*) from {SCHEMA}.chosen"))
            assert found, "no iteration was completed"
            columns: dict[str, list[tuple[str, str]]] = {}
            for row in await session.execute(_COLUMNS, {"tables": list(TABLES)}):
                columns.setdefault(row.table_name, []).append((row.column_name, row.data_type))
        return cls(found, {table: text(_copy_sql(table, columns[table])) for table in TABLES})

    async def copy(
        self, session: Transaction, agent_id: UUID, started_at: Sequence[datetime]
    ) -> None:
        """Iterations of the agent that began at these times, all on one day (UTC)."""
        many = len(started_at)
        first = await session.scalar(_COUNT, {"agent": agent_id, "many": many})
        assert first is not None
        numbers = range(first + 1, first + 1 + many)
        params = {
            "agent": agent_id,
            "numbers": list(numbers),
            "ks": [number % self.many for number in numbers],
            "cycles": [number // self.many for number in numbers],
            "times": list(started_at),
            "iterations": [iteration_id(agent_id, number) for number in numbers],
        }
        for table in TABLES:
            await session.execute(self.copies[table], params)
        of_day = {"agent": agent_id, "day": started_at[0].date(), "ks": params["ks"]}
        await session.execute(_SPEND, of_day)


def _copy_sql(table: str, columns: Sequence[tuple[str, str]]) -> str:
    names = ", ".join(name for name, _ in columns)
    values = ", ".join(_value_sql(table, name, kind) for name, kind in columns)
    return f"""
insert into {table} ({names})
select {values}
from unnest(cast(:numbers as int[]), cast(:ks as int[]), cast(:cycles as int[]), cast(:times as timestamptz[]),
    cast(:iterations as uuid[])) as place (number, k, cycle, started_at, iteration_id)
join {SCHEMA}.{table} as recorded using (k)
on conflict do nothing
"""


def _value_sql(table: str, name: str, kind: str) -> str:
    if name == ("id" if table == "iterations" else "iteration_id"):
        return "place.iteration_id"
    match name, kind:
        case "agent_id", _:
            return "cast(:agent as uuid)"
        case "number", _:
            return "place.number"
        case "transcripts_deleted_at", _:
            return "null"
        case "base_sha256", _:
            # The first one of a recorded chain is a difference from one that was not recorded.
            return (
                f"case when exists (select from {SCHEMA}.contexts as base where base.sha256 = recorded.base_sha256)"
                f" then {_hash_sql(name)} end"
            )
        case (("sha256" | "context_sha256"), _):
            return _hash_sql(name)
        case _, "uuid":
            return (
                f"cast(md5(recorded.{name}::text || cast(:agent as text) || place.cycle) as uuid)"
            )
        case _, "timestamp with time zone":
            return f"recorded.{name} - recorded.begun_at + place.started_at"
        case _:
            return f"recorded.{name}"


def _hash_sql(name: str) -> str:
    return f"sha256(recorded.{name} || convert_to(cast(:agent as text) || place.cycle, 'UTF8'))"
