"""Executes the tool calls of an answer: pays for searches, then runs tools of the database in one transaction."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeGuard
from uuid import UUID

from pydantic import ValidationError

from shared.billing.call_ledger import CallAnswer, CallRequest
from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database import locks
from shared.database.statements import Batch, BoundQuery, Executor
from shared.database.transaction import Transaction
from shared.enums import CallKind
from shared.failpoints import Failpoint, failpoint
from shared.llm.embeddings import Embeddings
from shared.llm.messages import ChatAnswer, Message, ToolCall, assistant_message, with_unique_ids
from shared.llm.phase_run import PhaseRun
from shared.llm.repair import Repairs
from shared.llm.tool_calls import call_repairs, parse_arguments
from shared.telemetry import tracing
from shared.tools import (
    INTERPRETATIONS_KEY,
    RECALLED_KEY,
    Arguments,
    Json,
    OrderedTool,
    PaidTool,
    StateTool,
    Tool,
    ToolPolicy,
    ToolRefusalError,
)

MAX_CALLS_AT_ONCE: Final = 128
"""Tool calls of one answer that are run. Further ones are refused."""
_TOO_MANY_CALLS: Final = (
    f"only the first {MAX_CALLS_AT_ONCE} tool calls of an answer are made, and this is a later one; make it again if it "
    "is still needed"
)
_SAME_RESULT: Final[Json] = {
    "note": "This very call was made before, and its result is above: use that, make another call, or answer."
}
_REFUSED_BEFORE: Final = (
    "This very call was refused before: do something else first, or go on without it."
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True)
"""Sorted, because PostgreSQL reorders keys: a resumed run must send the same bytes, or it pays again."""

Calls = Sequence[tuple[str, Json]]
"""Names and arguments of tool calls."""


@dataclass(frozen=True)
class StateCall:
    """A call of a state tool, or one that is refused before it runs."""

    tool: Tool | None
    arguments: Arguments | None
    refusal: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolUse(StateCall):
    """A tool call of an answer, with its validated arguments or the reason why it is refused."""

    key: str
    call: ToolCall
    repairs: Repairs = field(default_factory=Repairs)
    note: str | None = None
    """Refused part of a call whose other part is executed."""
    is_written: bool = True
    """Whether the call is in the recorded answer. Other calls are recorded with their arguments."""
    refused_arguments: Arguments | None = None
    """What the policy of the phase refused, which may change with the results of the answer's other calls."""

    @cached_property
    def request(self) -> CallRequest | None:
        """The ledger request of a paid call; None if the call is free or refused."""
        if not is_paid(self.tool) or self.arguments is None:
            return None
        content = {"tool": self.tool.name, **self.arguments.model_dump(mode="json", by_alias=True)}
        return CallRequest(CallKind.SEARCH, content, content, operation=self.tool.operation)

    @property
    def name_and_arguments(self) -> tuple[str, str]:
        """Of a paid call, the same for the same request however it is written."""
        request = self.request
        return self.call.name, self.call.arguments if request is None else request.hash

    @property
    def traced_name(self) -> str:
        """The model can call tools that do not exist by names of any length."""
        return self.call.name if self.tool is not None else "unknown"


def is_paid(tool: Tool | None) -> TypeGuard[PaidTool[Any] | OrderedTool[Any]]:
    return isinstance(tool, PaidTool | OrderedTool)


class ToolResults:
    """The results of the tool calls of one run, also those that an interrupted run recorded."""

    def __init__(self, run: PhaseRun) -> None:
        self._run = run
        self.by_key: dict[str, Json] = {}
        self.shown_records: dict[str, Json] = {}
        """By key of the call, what an interrupted run recorded of what it showed."""
        self.recorded: set[str] = set()
        self.refused: set[tuple[str, str]] = set()
        """Name and arguments of the calls that were refused in the rounds before."""
        self.last_calls: frozenset[tuple[str, str]] = frozenset()
        """Name and arguments of the calls of the round before."""
        self.paid_for: Counter[tuple[str, str]] = Counter()
        """How many earlier rounds answered a paid call, by name and request."""
        self._names: dict[str, str] = {}
        self._reached: dict[str, None] = {}
        """Keys of the calls that the run has reached, in call order. Concurrent calls may end in another order."""

    def remember(self, events: Sequence[Json]) -> None:
        """Restores the results of an interrupted run. Paid results are in the ledger: see `PaidCallsOfTools`."""
        for event in events:
            if event["type"] == "shown":
                self.shown_records[event["key"]] = event["record"]
            elif event["type"] == "tool_result":
                self.recorded.add(event["key"])
                self._names[event["key"]] = event["name"]
                if "result" in event:
                    self.by_key[event["key"]] = event["result"]
                    self._run.repair_count += len(_interpretations(event["result"]))

    def begin_round(self, uses: Sequence[ToolUse]) -> None:
        self._reached |= dict.fromkeys(use.key for use in uses)
        self._names |= {use.key: use.call.name for use in uses}

    def end_round(self, uses: Sequence[ToolUse]) -> None:
        self.last_calls = frozenset(use.name_and_arguments for use in uses)
        self.refused |= {use.name_and_arguments for use in uses if self.is_refused(use)}
        paid = [use for use in uses if is_paid(use.tool) and not self.is_refused(use)]
        self.paid_for.update({use.name_and_arguments for use in paid})

    def record(self, use: ToolUse, outcome: Json) -> None:
        """Records the result of a call, or the id of the paid call that has it, with the next commit."""
        event = {"type": "tool_result", "key": use.key, "name": use.call.name, **outcome}
        if not use.is_written:
            event["arguments"] = use.call.arguments
        self._run.add_event(event)

    def is_refused(self, use: ToolUse) -> bool:
        return "error" in self.by_key[use.key]

    @property
    def accepted(self) -> list[Json]:
        """Those of the calls that were not refused."""
        return [result for result in self.by_key.values() if "error" not in result]

    @property
    def reached(self) -> list[Json]:
        """The results of the calls that the run has reached, in call order, with refusals.

        A resumed run has loaded later results too. They do not count until the run reaches their answers.
        """
        return [self.by_key[key] for key in self._reached if key in self.by_key]

    def of_tool(self, name: str) -> list[Json]:
        """Returns those of a tool, without refusals."""
        return [
            result
            for key in self._reached
            if self._names[key] == name
            and (result := self.by_key.get(key)) is not None
            and "error" not in result
        ]


class CallReader:
    """Validates the tool calls of answers."""

    def __init__(
        self,
        run: PhaseRun,
        tools: Mapping[str, Tool],
        results: ToolResults,
        guard: ToolPolicy | None,
    ) -> None:
        self._run = run
        self._tools = tools
        self._results = results
        self._guard = guard

    def read(self, call_id: UUID, raw_answer: ChatAnswer, answer: ChatAnswer) -> list[ToolUse]:
        """Validates the calls of `answer`, which was normalized from `raw_answer`."""
        written = [call.arguments for call in raw_answer.tool_calls]
        call_notes = call_repairs(raw_answer, answer)
        return [
            self._use(call, f"{call_id}/{index}", repairs, written[index : index + 1])
            if index < MAX_CALLS_AT_ONCE
            else ToolUse(
                None,
                None,
                _TOO_MANY_CALLS,
                key=f"{call_id}/{index}",
                call=call,
                is_written=bool(written),
            )
            for index, (call, repairs) in enumerate(zip(answer.tool_calls, call_notes, strict=True))
        ]

    def own(
        self, calls: Calls, key: str, earlier: Sequence[Message]
    ) -> tuple[ChatAnswer, list[ToolUse]]:
        """Calls that code makes, and the answer to `earlier` messages in which the model would have made them.

        Recorded under `key`.
        """
        tool_calls = [
            ToolCall("", name, json.dumps(arguments, ensure_ascii=False))
            for name, arguments in calls
        ]
        message = with_unique_ids(assistant_message(None, tool_calls), earlier)
        answer = ChatAnswer(message, "tool_calls")
        return answer, [
            self._use(call, f"{key}/{index}", Repairs(), ())
            for index, call in enumerate(answer.tool_calls)
        ]

    def _use(self, call: ToolCall, key: str, repairs: Repairs, written: Sequence[str]) -> ToolUse:
        """`written` has the arguments as the server sent them, to report what is wrong if they cannot be parsed. Without
        them, the call is in no answer.
        """
        use = partial(ToolUse, key=key, call=call, repairs=repairs, is_written=bool(written))
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools))
            return use(None, None, f"there is no tool {call.name!r} here, only: {known}")
        text = call.arguments
        if text == "{}" and written:
            [text] = written
        try:
            arguments = parse_arguments(tool, text, repairs)
        except ValidationError as error:
            return use(tool, None, faults(call.name, error))
        return self._guarded(use(tool, arguments))

    def guard_again(self, use: ToolUse) -> ToolUse:
        """A call that the policy refused, as it judges it now; other calls as they are."""
        if use.refused_arguments is None:
            return use
        return self._guarded(
            replace(use, arguments=use.refused_arguments, refusal=None, refused_arguments=None)
        )

    def _guarded(self, use: ToolUse) -> ToolUse:
        if self._guard is None or use.arguments is None:
            return use
        refused = self._guard(self._run.first_message, use.arguments, self._results.accepted)
        if refused is None:
            return use
        if refused.remaining is None:
            return replace(
                use, arguments=None, refusal=refused.reason, refused_arguments=use.arguments
            )
        return replace(use, arguments=refused.remaining, note=refused.reason)


def faults(tool: str, error: ValidationError) -> str:
    """Explains to the model what is wrong with the arguments of a tool."""
    messages = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:10]
    )
    return f"the arguments of {tool} do not fit: {messages}. Correct them and call again"


class ShortIds(Protocol):
    """Short ids that the model sees in place of UUIDs."""

    async def store_numbers(self, transaction: Executor, texts: Iterable[str]) -> None:
        """Numbers the elements whose UUIDs are in `texts`."""

    async def load(self, transaction: Executor, texts: Iterable[str]) -> None:
        """Loads the short ids in `texts`, which were shown before."""

    def shorten(self, text: str) -> str: ...


class CallPreview(Protocol):
    """Examines calls of an answer before they run."""

    async def examine(self, key: str, calls: Sequence[StateCall], earlier: Sequence[Json]) -> None:
        """May pay for calls of a model. `key` identifies the answer, `earlier` has the results of earlier calls."""

    def storing(self) -> Sequence[BoundQuery[None]]:
        """What is to be written together with what the calls wrote."""


class Toolset:
    """Executes the tool calls of an answer, and shows their results."""

    def __init__(
        self,
        run: PhaseRun,
        results: ToolResults,
        embeddings: Embeddings | None,
        short_ids: ShortIds | None,
        ends: Callable[[], bool],
        preview: CallPreview | None = None,
    ) -> None:
        """Results of an answer that `ends` the phase are not shown, and need no short ids."""
        self._run = run
        self._results = results
        self._embeddings = embeddings
        self._short_ids = short_ids
        self._ends = ends
        self._preview = preview
        self._paid = PaidCallsOfTools(run, results)

    @asynccontextmanager
    async def execute(self, uses: Sequence[ToolUse]) -> AsyncIterator[Transaction | None]:
        """Pays for the calls of paid tools, then runs the others in the transaction of the step's unit of work.

        The block continues that transaction; None if no call needs it. The next commit writes effects and results together
        with what the block writes: that of the next paid call, or of the step's end.
        """
        await self._paid.pay([use for use in uses if use.request is not None])
        free = [use for use in uses if use.request is None]
        if not free:
            yield None
            return
        if self._embeddings is not None:
            # Before the transaction, because it must not wait for a model server.
            requests = dict.fromkeys(filter(None, map(_embedding_request, free)))
            await _wait_for_all(map(self._embeddings.ensure_in_ledger, requests))
        preview = await self._examine(free)
        batch = Batch()
        run_calls = prepare_state_calls(batch, self._run.lease.agent_id, free)
        is_one = len({use.call.name for use in free}) == 1
        name = f"execute_tool {free[0].traced_name}" if is_one else "execute_tools"
        with tracing.child(name, attributes=_traced_tools(free)) as span:
            async with self._run.unit.transaction(batch) as transaction:
                for use, result in zip(free, await run_calls(transaction), strict=True):
                    self._record(use, result)
                for query in () if preview is None else preview.storing():
                    self._run.unit.defer_query(query)
                if self._short_ids is not None and not self._ends():
                    texts = [_ENCODER.encode(self._results.by_key[use.key]) for use in free]
                    # Sends the new nodes and edges too, which have waited in the buffer.
                    await self._short_ids.store_numbers(transaction, texts)
                yield transaction
            refused = sum(map(self._results.is_refused, free))
            if span is not None and refused:
                span.add({"vigil.tool.refusals": refused})

    async def _examine(self, uses: Sequence[ToolUse]) -> CallPreview | None:
        """Has the preview examine the calls that it is for, outside a transaction: it may pay. None if there are none."""
        previewed = [
            use for use in uses if isinstance(use.tool, StateTool) and use.tool.is_previewed
        ]
        if self._preview is None or not previewed:
            return None
        await self._preview.examine(previewed[0].key, previewed, self._results.reached)
        return self._preview

    def _record(self, use: ToolUse, result: Json) -> None:
        """Records the result of a state tool with the next commit."""
        if "error" in result and (use.call.name, use.call.arguments) in self._results.refused:
            # A weak model would repeat the call endlessly.
            result = {**result, "error": f"{result['error']} {_REFUSED_BEFORE}"}
        self._results.record(use, {"result": result})
        self._run.add_repairs(use.call.name, _interpretations(result), key=use.key)
        failpoint(Failpoint.TOOL_APPLIED)
        self._results.by_key[use.key] = result

    def reply(self, use: ToolUse) -> Message:
        """The message with the result of an executed call, for the model."""
        if is_paid(use.tool):
            shown = self._paid.show(use)
            return _reply(use, _SAME_RESULT if shown is None else shown)
        message = _reply(use, self._results.by_key[use.key])
        if self._short_ids is None:
            return message
        return {**message, "content": self._short_ids.shorten(message["content"])}

    def is_repeated(self, use: ToolUse) -> bool:
        """Whether the call brings nothing new: it is one of the round before, or is refused again, or all of its result was
        shown before.
        """
        call, results = use.name_and_arguments, self._results
        if is_paid(use.tool) and not results.is_refused(use):
            return self._paid.show(use) is None
        return call in results.last_calls or (results.is_refused(use) and call in results.refused)

    async def resume(self) -> None:
        """Loads the short ids that an interrupted run has shown."""
        if self._short_ids is None:
            return
        async with self._run.unit.transaction() as transaction:
            await self._short_ids.load(transaction, [self._run.first_message])
            shown = map(_ENCODER.encode, self._results.by_key.values())
            await self._short_ids.store_numbers(transaction, shown)


def _reply(use: ToolUse, result: Json) -> Message:
    shown = {**result, "refused": use.note} if use.note else result
    return {"role": "tool", "tool_call_id": use.call.id, "content": _ENCODER.encode(shown)}


class PaidCallsOfTools:
    """Pays for calls of paid tools, and shows of each result what was not shown before."""

    def __init__(self, run: PhaseRun, results: ToolResults) -> None:
        self._run = run
        self._results = results
        self._shown: dict[str, Json | None] = {}
        """By key of the call; None if all of it was shown before."""
        self._first_keys: dict[tuple[str, str, int], str] = {}
        """The key of the first of equal calls in a round, by name, request and the number of earlier rounds with it."""

    async def pay(self, uses: Sequence[ToolUse]) -> None:
        """Makes each distinct call once, all of them concurrently."""
        by_hash: dict[str, list[ToolUse]] = {}
        for use in uses:
            assert use.request is not None
            by_hash.setdefault(use.request.hash, []).append(use)
        await _wait_for_all(map(self._pay, by_hash.values()))

    async def _pay(self, uses: Sequence[ToolUse]) -> None:
        """Makes one call for `uses`, which have the same request."""
        use, run = uses[0], self._run
        request = use.request
        assert request is not None
        assert request.operation is not None
        operation = request.operation
        call = await run.paid_calls.commit_call(request)
        result, is_recalled = call.answer, False
        if result is None and isinstance(use.tool, PaidTool) and use.tool.recall is not None:
            earlier = await use.tool.recall(use.arguments)
            if earlier is not None:
                result, is_recalled = {**earlier, RECALLED_KEY: True}, True
        if result is None:
            with tracing.child(f"execute_tool {use.call.name}", "client", _traced_tools(uses)):
                result = await run.send(call, partial(_send_paid_call, use))

        def write() -> None:
            # A search that was refused, or an earlier answer that was used, costs nothing.
            is_free = is_recalled or run.paid_calls.is_unbilled(call)
            usd = Decimal(0) if is_free else run.prices.of_operation(operation)
            run.add_answer(call, CallAnswer(result, cost_usd=usd))
            for each in unrecorded:
                self._results.record(each, {"call_id": str(call.id)})

        unrecorded = [each for each in uses if each.key not in self._results.recorded]
        if unrecorded:
            await run.unit.defer_durably(write)
        self._results.by_key |= {each.key: result for each in uses}

    def show(self, use: ToolUse) -> Json | None:
        """What the model is shown of the result. None if it was paid for, and shown, before."""
        if use.key in self._shown:
            return self._shown[use.key]
        result = self._results.by_key[use.key]
        times = self._results.paid_for[use.name_and_arguments]
        first_key = self._first_keys.setdefault((*use.name_and_arguments, times), use.key)
        times += first_key != use.key
        if not isinstance(use.tool, PaidTool) or use.tool.show is None or "error" in result:
            shown = None if times else result
        else:
            record = self._results.shown_records.get(use.key)
            showing = use.tool.show(result, times, record)
            shown = showing.result
            if record is None and showing.record is not None:
                # Committed before the next request, as the first one that has it.
                event = {"type": "shown", "key": use.key, "name": use.call.name}
                self._run.add_event({**event, "record": showing.record})
        self._shown[use.key] = shown
        return shown


def prepare_state_calls(
    batch: Batch, agent_id: UUID, calls: Sequence[StateCall]
) -> Callable[[Transaction], Awaitable[list[Json]]]:
    """Adds what the calls look up to `batch`. When it has been made, call the result with the transaction.

    That runs the calls in order; the result of a refused one is its error. A refused call leaves nothing.
    """
    tools = [call.tool for call in calls if isinstance(call.tool, StateTool)]
    arguments = [call.arguments for call in calls if call.arguments is not None]
    preparations = dict.fromkeys(tool.prepare for tool in tools if tool.prepare is not None)
    if len(calls) > 1 and not preparations:
        batch.add(locks.tool_write_lock(agent_id))
    hand_overs = [prepare(batch, arguments) for prepare in preparations]

    async def run(transaction: Transaction) -> list[Json]:
        for hand_over in hand_overs:
            await hand_over(transaction)
        results: list[Json] = []
        for call in calls:
            if call.arguments is None:
                results.append({"error": call.refusal})
                continue
            tool = call.tool
            assert isinstance(tool, StateTool)
            try:
                results.append(await tool.run(transaction, call.arguments))
            except ToolRefusalError as refusal:
                results.append(refusal.result)
        return results

    return run


async def _send_paid_call(use: ToolUse, in_flight: ResumableCall) -> Json:
    """Sends the call; the result of a refused one is its error."""
    tool = use.tool

    async def order(_: str) -> str:
        assert isinstance(tool, OrderedTool)
        async with in_flight.attempt():
            return await tool.order(use.arguments, in_flight)

    try:
        if isinstance(tool, OrderedTool):
            return await in_flight.resume_or_start(order, tool.collect)
        assert isinstance(tool, PaidTool)
        async with in_flight.attempt():
            return await tool.call(use.arguments, in_flight)
    except ToolRefusalError as refusal:
        return {"error": str(refusal)}


def _embedding_request(use: ToolUse) -> EmbeddingRequest | None:
    if not isinstance(use.tool, StateTool) or use.arguments is None:
        return None
    return use.tool.embedding_request(use.arguments)


def _interpretations(result: Json) -> Repairs:
    """Returns the tool's notes about how it interpreted ambiguous arguments."""
    return Repairs(list(result.get(INTERPRETATIONS_KEY, ())))


def _traced_tools(uses: Sequence[ToolUse]) -> tracing.Attributes:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": uses[0].traced_name,
        "vigil.tool.names": [use.traced_name for use in uses],
    }


async def _wait_for_all(calls: Iterable[Awaitable[None]]) -> None:
    """Waits for all calls, then raises the first error. An abandoned call would stay unrecorded and be paid for again."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if outcome is not None:
            raise outcome
