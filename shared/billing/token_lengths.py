"""How long a token is, by what model servers count: budgets of contexts are in tokens, and each model has its own."""

from math import ceil
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement

REQUEST_BYTES: Final = "bytes"
"""Key of a stored request: the length of its JSON in UTF-8."""
_NEWEST: Final = 60
"""Calls, also of searches."""
_MIN_CALLS: Final = 10
_MIN_CHANGE: Final = 0.05
"""A smaller change is not worth the beginnings of requests that servers have cached."""
_LIMITS: Final = (1.5, 6.0)
"""A server that counts outside of them counts something else."""

_MEASURE: Final = CompiledStatement(f"""
update agents set bytes_per_token = measured.ratio
from (
  select sum(cast(request ->> '{REQUEST_BYTES}' as float8)) / sum(input_tokens) as ratio, count(*) as calls
  from (
    select request, input_tokens from calls
    where agent_id = :of_agent order by started_at desc limit {_NEWEST}
  ) as newest
  where input_tokens > 0 and request ? '{REQUEST_BYTES}'
) as measured
where agents.id = :of_agent and measured.calls >= {_MIN_CALLS}
  and measured.ratio between {_LIMITS[0]} and {_LIMITS[1]}
  and abs(measured.ratio / bytes_per_token - 1) > {_MIN_CHANGE}
""")


def estimate_tokens(size_bytes: int, bytes_per_token: float) -> int:
    """The tokens of a JSON text of this size, for servers that report none."""
    return ceil(size_bytes / bytes_per_token)


def measuring(agent_id: UUID) -> BoundQuery[None]:
    """Sets the agent's `bytes_per_token` to that of its newest calls, if it differs by more than 5 %."""
    return BoundQuery(_MEASURE, {"of_agent": agent_id}, lambda _: None)
