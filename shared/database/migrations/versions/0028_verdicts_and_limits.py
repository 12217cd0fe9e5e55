"""Verdicts without errors, and limits of what services may write.

Revision ID: 0028
Revises: 0027
"""

from typing import Final

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

# The client has prepared COMMIT as `vigil_commit`, and sends its execution together with the statements before it.
FORBID_COMMIT: Final = """create function forbid_commit() returns boolean language plpgsql as $$
begin
  execute 'deallocate vigil_commit';
  execute 'prepare vigil_commit as select true';
  return true;
end
$$
"""

GROW_ONLY: Final = """create function spending_only_grows() returns trigger language plpgsql as $$
begin
  raise insufficient_privilege using message = 'what was spent cannot be lowered';
end
$$;
create trigger spending_only_grows before update of spent_usd, spent_calls on budget_days for each row
when (new.spent_usd < old.spent_usd or new.spent_calls < old.spent_calls) execute function spending_only_grows()
"""

READ_THE_WEB: Final = "'vigil_researcher', 'vigil_observer', 'vigil_analyzer', 'vigil_adviser'"
# Who may pause an agent may also end its suspension.
SUSPENSION: Final = f"""create function suspension_stays() returns trigger language plpgsql as $$
begin
  raise insufficient_privilege using message = 'a service that reads the web cannot end a suspension';
end
$$;
create trigger suspension_stays before update of suspended_until on agents for each row
when (old.suspended_until > statement_timestamp()
  and coalesce(new.suspended_until < old.suspended_until, true) and current_user in ({READ_THE_WEB}))
execute function suspension_stays()
"""

_AMOUNT: Final = "[0-9.]+ (USD|calls?)"
TITLE: Final = (
    f"^( is suspended until tomorrow: (its|the installation''s) daily budget of {_AMOUNT} is reached"
    "| has spent [0-9]+ % of its (daily|monthly) budget)$"
)
SUMMARY: Final = (
    "^((the daily budget of the agent|the installation''s daily budget) for [0-9-]{10} is reached: "
    f"[0-9.]+ of {_AMOUNT} (is|are) (used|spent, and the next call could cost {_AMOUNT})[.] "
    "The agent is suspended until midnight [(]UTC[)]; a higher budget "
    "[(]`vigil budget (AGENT|--installation) --(usd|calls) …`[)] resumes it immediately"
    "|[0-9.]+ of [0-9.]+ USD is spent[.] An agent whose daily budget is reached is suspended until midnight [(]UTC[)][.] "
    "`vigil costs` shows what it was spent on; `vigil budget` changes it[.])$"
)
# Services of 0.3.0, which may run beside, name the agent in the summary.
NOTICES: Final = f"""create function notice_is_known() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  agent text;
  summary text := new.summary;
begin
  select name into agent from agents where id = new.agent_id and owner_id = new.owner_id;
  if starts_with(summary, 'the daily budget of ' || agent || ' for ') then
    summary := 'the daily budget of the agent' || substr(summary, length('the daily budget of ' || agent) + 1);
  end if;
  summary := replace(
    summary, '. ' || upper(left(agent, 1)) || substr(agent, 2) || ' is suspended', '. The agent is suspended');
  if (starts_with(new.title, agent) and substr(new.title, length(agent) + 1) ~ '{TITLE}' and summary ~ '{SUMMARY}')
    is not true
  then
    raise insufficient_privilege using message = 'a service that reads the web writes only known notices';
  end if;
  return new;
end
$$;
create trigger notice_is_known before insert on inbox_items for each row
when (new.kind = 'notice' and current_user in ({READ_THE_WEB})) execute function notice_is_known()
"""


def upgrade() -> None:
    op.execute(FORBID_COMMIT)
    op.execute(GROW_ONLY)
    op.execute(SUSPENSION)
    op.execute(NOTICES)
