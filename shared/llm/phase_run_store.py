"""Stores phase runs and the contexts that they share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from shared.agents import contexts
from shared.agents.contexts import StepGroup, StoredContext
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    Batch,
    BoundQuery,
    CompiledStatement,
    PendingResult,
    json_text,
)
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Phase
from shared.workflow.leases import Lease

_Json = dict[str, Any]


@dataclass(frozen=True)
class StoredRun:
    """A stored run: its complete first request, and its events so far."""

    id: UUID
    model: str
    system_prompt: str
    request: _Json
    events: Sequence[_Json] = ()


class CompressedRun(Protocol):
    """The columns of a run that its request is restored from."""

    @property
    def id(self) -> UUID: ...
    @property
    def agent_id(self) -> UUID: ...
    @property
    def request(self) -> _Json: ...
    @property
    def message(self) -> bytes | None: ...
    @property
    def context_sha256(self) -> bytes | None: ...


def restore_request(request: _Json, message: bytes | None, context: str) -> _Json:
    """Restores a stored request from its message, which was compressed with its context."""
    if message is None:
        return request
    content = contexts.decompress(message, context.encode())
    return {**request, "messages": [{"role": "user", "content": content}]}


async def load_requests(
    transaction: Transaction, runs: Iterable[CompressedRun]
) -> dict[UUID, _Json]:
    """Returns the complete request of each run, by run id."""
    runs = list(runs)
    keys = {
        run.id: (run.agent_id, run.context_sha256) for run in runs if run.context_sha256 is not None
    }
    texts = await contexts.load_texts(transaction, set(keys.values()))
    return {
        run.id: restore_request(
            run.request, run.message, texts[keys[run.id]] if run.id in keys else ""
        )
        for run in runs
    }


_INSERT_SQL: Final = """
  insert into llm_interactions as known (id, agent_id, iteration_id, step_id, phase, model,
    system_prompt, request, message, context_sha256)
  values (:id, :agent_id, :iteration_id, :step_id, :phase, :model, :system_prompt,
    cast(:request as jsonb), :message, :context_sha256)
"""
_RESTART_SQL: Final = f"""{_INSERT_SQL}
  on conflict (id) do update
  set model = excluded.model, system_prompt = excluded.system_prompt, request = excluded.request,
    message = excluded.message, context_sha256 = excluded.context_sha256
  where not exists (select from calls where interaction_id = known.id and answered_at is not null)
  and exists (
    select from steps
    where id = :step_id and retried_epoch > 0 and retried_epoch = :epoch_before)
"""


def _with_context_sql(run_sql: str) -> str:
    """Also inserts the context, unless it exists, if a row that refers to it was written.

    Waits for a concurrent transaction that inserts the same context.
    """
    return f"""
with run as ({run_sql} returning *),
new_context as (
  insert into contexts (agent_id, sha256, base_sha256, depth, data)
  select agent_id, context_sha256, cast(:base_sha256 as bytea), cast(:depth as smallint),
    cast(:context as bytea)
  from run where cast(:context as bytea) is not null
  on conflict do nothing
  returning sha256
)
select run.*, exists (select from new_context) as has_new_context,
  case when :strict and cast(:required_sha256 as bytea) is not null and not exists (
    select from contexts where agent_id = :agent_id and sha256 = :required_sha256
  ) then forbid_commit() end as is_undone
from run
"""


_INSERT: Final = CompiledStatement(f"{_INSERT_SQL} returning id")
_INSERT_WITH_CONTEXT: Final = CompiledStatement(_with_context_sql(_INSERT_SQL))
# Separate statements: services without contexts have no right to write them, not even unused in a statement.
_BEGIN: Final = CompiledStatement(f"{_RESTART_SQL} returning *")
_BEGIN_WITH_CONTEXT: Final = CompiledStatement(_with_context_sql(_RESTART_SQL))
_LOAD: Final = CompiledStatement("""
select id, agent_id, model, system_prompt, request, message, context_sha256, coalesce((
    select jsonb_agg(event.value order by calls.answered_at, calls.id, event.place)
    from calls cross join lateral jsonb_array_elements(calls.events) with ordinality as event (value, place)
    where interaction_id = llm_interactions.id), '[]') as events
from llm_interactions where id = :of_interaction
""")


class NewRun:
    """A phase of a step that is about to begin.

    Its message is compressed with `context`, which is stored once for all runs, and pinned for the steps `pinned_for`.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        phase: Phase,
        *,
        model: str,
        system_prompt: str,
        request: _Json,
        context: str = "",
        pinned_for: StepGroup | None = None,
    ) -> None:
        message: bytes | None = None
        if "messages" in request:
            (only_message,) = request["messages"]
            message = contexts.compress(only_message["content"], context.encode())
        self.lease = lease
        self.id = ids.interaction_id(lease.step_id, phase)
        self.request = request
        self._database = database
        self._context = context
        self._context_sha256 = contexts.hash_text(context) if context else None
        self._pinned_for = pinned_for
        self._is_rewritten = False
        self._stored_context: StoredContext | None = None
        self._has_new_context: PendingResult[bool] = PendingResult()
        self._params: Mapping[str, Any] = {
            "id": self.id,
            "agent_id": lease.agent_id,
            "iteration_id": lease.iteration_id,
            "step_id": lease.step_id,
            "phase": phase,
            "model": model,
            "system_prompt": system_prompt,
            "request": json_text({key: request[key] for key in request if key != "messages"}),
            "message": message,
            "context_sha256": self._context_sha256,
            STRICT: False,
        }

    @property
    def record(self) -> StoredRun:
        """The run with its complete request."""
        return StoredRun(
            self.id, self._params["model"], self._params["system_prompt"], self.request
        )

    def write(self, batch: Batch) -> None:
        """Creates the interaction of a step that no worker has had before. Raises RetrySoonError if another context is
        pinned.
        """
        if not self._context:
            batch.add(BoundQuery(_INSERT, self._params, lambda _: None))
            return
        # It is written again if the context that it is a difference from has disappeared.
        agent_id, text = self.lease.agent_id, self._context
        stored = (
            contexts.in_full(text)
            if self._is_rewritten
            else contexts.as_difference(self._database, agent_id, text)
        )
        self._is_rewritten = True
        self._has_new_context = batch.add(
            BoundQuery(
                _INSERT_WITH_CONTEXT,
                self._params_with(stored),
                lambda rows: bool(rows[0].has_new_context),
            )
        )
        self._stored_context = stored
        if (pinning := self._pinning) is not None:
            batch.add(pinning)

    def write_with(self, unit: UnitOfWork) -> None:
        """Creates it with the next commit. The next context is stored as a difference from its own, once that is stored."""
        unit.defer(self.write)
        unit.on_this_commit(self._remember_context)

    def _remember_context(self) -> None:
        if self._stored_context is not None and self._has_new_context.value:
            contexts.remember(
                self._database, self.lease.agent_id, self._context, self._stored_context
            )

    async def open_or_resume(self, transaction: Transaction) -> StoredRun:
        """Creates the interaction, or returns the existing one with its original request.

        An interaction without an answer is overwritten if the user requested a retry of the step since: the model name or
        the prompt may have been corrected. After a crash it is not overwritten, because its call may be in flight.
        """
        params = {**self._params, "epoch_before": self.lease.epoch - 1}
        if self._context:
            params |= self._params_with(contexts.in_full(self._context))
            record = await _BEGIN_WITH_CONTEXT.row(transaction, params)
            if record is not None and (pinning := self._pinning) is not None:
                await pinning.execute(transaction)
        else:
            record = await _BEGIN.row(transaction, params)
        return self.record if record is not None else await _load_existing(transaction, self.id)

    @property
    def _pinning(self) -> BoundQuery[None] | None:
        if self._pinned_for is None or self._context_sha256 is None:
            return None
        return contexts.pinning(self._pinned_for, self.lease.agent_id, self._context_sha256)

    def _params_with(self, stored: StoredContext) -> dict[str, Any]:
        return {
            **self._params,
            "base_sha256": stored.base_sha256,
            "depth": stored.depth,
            "context": stored.data,
            "required_sha256": stored.required_sha256,
        }


async def _load_existing(transaction: Transaction, interaction_id: UUID) -> StoredRun:
    row = await _LOAD.row(transaction, {"of_interaction": interaction_id})
    requests = await load_requests(transaction, [row])
    return StoredRun(row.id, row.model, row.system_prompt, requests[row.id], row.events)
