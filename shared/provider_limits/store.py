"""Reads and writes the shared state of a provider: one round trip each."""

import hashlib
import json
import random
from dataclasses import dataclass
from typing import Any, Final, Literal

from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.errors import USED_UP, WaitForProviderError
from shared.provider_limits.state import ProviderState

Kind = Literal["model", "search"]

KNOWN_SECONDS: Final = 900.0
"""While a process calls a provider that is unavailable or limits requests, the row is written more often than this. If it is
older, no process uses the provider with this key any more: the settings name another one, or nothing runs.
"""

_NOW: Final = "cast(extract(epoch from clock_timestamp()) as double precision) as now"
_READ: Final = CompiledStatement(f"""
select version, state, {_NOW}
from (select cast(:key as text) as key) as asked left join provider_limits using (key)
""")
# Without a lock between reading and writing, so a process that stops amid it holds up no other.
_WRITE: Final = CompiledStatement(f"""
with written as (
  insert into provider_limits as known (key, kind, name, version, state)
  values (:key, :kind, :name, 1, cast(:state as jsonb))
  on conflict (key) do update
  set name = excluded.name, version = known.version + 1, state = excluded.state,
    updated_at = clock_timestamp()
  where known.version = :seen
  returning version
)
select written.version as written, known.version, known.state, {_NOW}
from (select cast(:key as text) as key) as asked left join written on true
  left join provider_limits as known on known.key = asked.key
""")

QUOTA_KNOWN_SECONDS: Final = 180.0
"""While a process knows that the quota is used up, it writes the row more often than this."""
_USED_UP: Final = CompiledStatement(f"""
select name, state, {_NOW} from provider_limits
where kind = 'search' and cast(state ->> 'is_quota' as boolean)
  and updated_at > clock_timestamp() - make_interval(secs => {QUOTA_KNOWN_SECONDS})
""")


def search_quota() -> BoundQuery[WaitForProviderError | None]:
    """The error of a step that needs the search service while its quota is used up; None if it is not."""

    def read(rows: list[Row]) -> WaitForProviderError | None:
        if not rows:
            return None
        row = rows[0]
        state = ProviderState.from_json(row.state)
        seconds = state.outage_pause_seconds(row.now, random.random())
        return WaitForProviderError(
            f"{row.name} {USED_UP}: {state.error}", retry_in_seconds=seconds
        )

    return BoundQuery(_USED_UP, {}, read)


@dataclass(frozen=True)
class Known:
    """The state as it was read or written last."""

    version: int
    """0: there is no row."""
    state: ProviderState
    now: float
    """The database's time then, in seconds."""
    is_written: bool = False


class StateStore:
    """The state of one provider."""

    def __init__(self, database: Database, kind: Kind, key: str, name: str) -> None:
        """`key` is that of `provider_key`; `name` is shown to users."""
        self._database = database
        self._params: dict[str, Any] = {"key": key, "kind": kind, "name": name}

    async def read(self) -> Known:
        """Raises RetrySoonError if PostgreSQL is unavailable."""

        def read(rows: list[Row]) -> Known:
            return _known(rows[0], ProviderState())

        return await self._database.run(BoundQuery(_READ, {"key": self._params["key"]}, read))

    async def write(self, seen_version: int, state: ProviderState) -> Known:
        """Writes `state` if no other process has written since `seen_version`; else returns what one has written.

        Raises RetrySoonError if PostgreSQL is unavailable.
        """

        def read(rows: list[Row]) -> Known:
            (row,) = rows
            if row.written is not None:
                return Known(row.written, state, row.now, is_written=True)
            return _known(row, state)

        params = {**self._params, "seen": seen_version, "state": json.dumps(state.as_json())}
        return await self._database.run(BoundQuery(_WRITE, params, read))


def _known(row: Row, otherwise: ProviderState) -> Known:
    if row.version is None:
        return Known(0, otherwise, row.now)
    return Known(row.version, ProviderState.from_json(row.state), row.now)


def provider_key(base_url: str | None, api_key: str) -> str:
    """Identifies an account of a provider: a hash, which does not reveal the key."""
    text = json.dumps(["vigil provider", (base_url or "").rstrip("/"), api_key])
    return hashlib.sha256(text.encode()).hexdigest()
