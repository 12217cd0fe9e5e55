"""The events of a phase run are stored in the rows of its calls, each with the answer that it follows.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
contracts = "no release has read `llm_interactions.events`"

# The first event that names a call goes to that call, as do those that follow, until the next call; those before go to the
# run's first call.
_MOVE_TO_CALLS = """\
update calls set events = gathered.events
from (
  select call_id, jsonb_agg(event order by place) as events
  from (
    select event, place,
      case when answer > 0 then cast(first_value(event ->> 'call_id') over answered as uuid)
        else (select id from calls where interaction_id = run_id order by started_at, id limit 1)
      end as call_id
    from (
      select run_id, event, place,
        count(*) filter (where names_call and is_first) over run as answer
      from (
        select runs.id as run_id, event, place, event ? 'call_id' as names_call,
          row_number() over (partition by runs.id, event ->> 'call_id' order by place) = 1 as is_first
        from llm_interactions runs
        cross join jsonb_array_elements(runs.events) with ordinality as each (event, place)
      ) as stored
      window run as (partition by run_id order by place)
    ) as grouped
    window answered as (partition by run_id, answer order by place)
  ) as placed
  group by call_id
) as gathered
where calls.id = gathered.call_id
"""
_MOVE_TO_RUNS = """\
update llm_interactions set events = gathered.events
from (
  select interaction_id, jsonb_agg(event order by answered_at, id, place) as events
  from calls cross join jsonb_array_elements(calls.events) with ordinality as each (event, place)
  group by interaction_id
) as gathered
where llm_interactions.id = gathered.interaction_id
"""


def upgrade() -> None:
    _add_events_to("calls")
    op.execute(_MOVE_TO_CALLS)
    op.drop_column("llm_interactions", "events")


def downgrade() -> None:
    _add_events_to("llm_interactions")
    op.execute(_MOVE_TO_RUNS)
    op.drop_column("calls", "events")


def _add_events_to(table: str) -> None:
    op.add_column(
        table, sa.Column("events", postgresql.JSONB(), server_default="[]", nullable=False)
    )
