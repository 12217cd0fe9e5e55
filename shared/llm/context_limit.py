"""Keeps requests within the context of a model, and finds requests of which a server has read only a part.

Local servers have a context of 8,000 to 32,000 tokens for request and answer. Some cut what exceeds it, and say so nowhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final
from uuid import UUID

from shared.billing.resumable_call import ResumableCall
from shared.billing.token_lengths import REQUEST_BYTES
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.errors import PermanentError
from shared.llm.adaptation import BYTES_PER_TOKEN
from shared.llm.messages import ChatAnswer, ChatRequest, Message, encode_json
from shared.llm.model_server import SettingNames
from shared.llm.provider import OnDelta, Provider

CONTEXT_TOO_SMALL: Final = "context_too_small"
ANSWER_SHARE: Final = 0.25
"""Of the context that is kept for the answer."""
LEFT_OUT: Final = (
    '{"note": "left out, because the model\'s context is full; what was done stays done"}'
)
CUT: Final = "\n[The rest was left out, because the model's context is full.]\n"


class LimitedProvider:
    """A provider whose requests, with their answers, fit into `context_tokens`.

    What is sent is a pure function of the request, so a resumed call sends the same. The recorded call and its hash do not
    change. Results of tools are left out first, the oldest first; then whole rounds
    of calls; then the longest message is cut.
    """

    def __init__(self, provider: Provider, context_tokens: int, setting: str) -> None:
        """Errors name the `setting`, which has set `context_tokens`."""
        self._provider = provider
        self._context_tokens = context_tokens
        self._setting = setting
        self.close = provider.close

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """See `Provider.complete`."""
        fitted = fit(request, self._context_tokens, self._setting)
        answer = await self._provider.complete(fitted, in_flight, on_delta)
        return replace(answer, sent_messages=fitted.messages)


def estimate_tokens(request: ChatRequest) -> int:
    return len(encode_json(request.body)) // BYTES_PER_TOKEN


def fit(
    request: ChatRequest, context_tokens: int, setting: str = SettingNames.context
) -> ChatRequest:
    """`request` within `context_tokens`, its answer included. Raises PermanentError if its instructions alone are longer."""
    limit = int(context_tokens * (1 - ANSWER_SHARE))

    def excess() -> int:
        """Bytes that are too many."""
        return (estimate_tokens(request) - limit) * BYTES_PER_TOKEN

    if excess() > 0:
        request = replace(request, messages=_without_results(request.messages, excess()))
    while excess() > 0 and (messages := _without_oldest_round(request.messages)) is not None:
        request = replace(request, messages=messages)
    while excess() > 0 and (messages := _with_longest_cut(request.messages, excess())) is not None:
        request = replace(request, messages=messages)
    if (length := estimate_tokens(request)) > limit:
        raise PermanentError(
            CONTEXT_TOO_SMALL,
            f"a request of {length:,} tokens does not fit into the model's context of {context_tokens:,}"
            f" ({setting}), of which a quarter is kept for the answer: serve the model with a"
            " longer context, or lower VIGIL_CONTEXT_TOKENS",
            is_unbilled=True,
        )
    room = context_tokens - estimate_tokens(request)
    most = request.max_output_tokens
    return replace(request, max_output_tokens=room if most is None else min(most, room))


def _without_results(messages: Sequence[Message], excess: int) -> tuple[Message, ...]:
    """`messages` without results of tools of `excess` bytes, the oldest first. The last message stays."""
    shortened = list(messages)
    for index, message in enumerate(messages[:-1]):
        if excess <= 0:
            break
        if message.get("role") == "tool":
            saved = len(encode_json(message["content"])) - len(encode_json(LEFT_OUT))
            if saved > 0:
                shortened[index] = {**message, "content": LEFT_OUT}
                excess -= saved
    return tuple(shortened)


def _without_oldest_round(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """`messages` without the oldest answer that calls tools, and their results; None if only the newest one is left.

    Both go together: a server refuses a result without its call.
    """
    rounds = [index for index, message in enumerate(messages) if message.get("tool_calls")]
    if len(rounds) < 2:
        return None
    first, end = rounds[0], rounds[0] + 1
    while end < len(messages) and messages[end].get("role") == "tool":
        end += 1
    return (*messages[:first], *messages[end:])


def _with_longest_cut(messages: Sequence[Message], excess: int) -> tuple[Message, ...] | None:
    """`messages` with `excess` bytes less in the longest one, but for the rules; None if none can be cut further."""
    lengths = {
        index: len(message["content"])
        for index, message in enumerate(messages)
        if message.get("role") != "system" and isinstance(message.get("content"), str)
    }
    if not lengths:
        return None
    longest = max(lengths, key=lambda index: lengths[index])
    text = messages[longest]["content"]
    # In the middle: the task stands at its end, and the mission at its beginning.
    encoded = text.encode(errors="replace")
    keep = max(len(encoded) - excess - len(CUT), 0)
    head, tail = encoded[: keep // 2], encoded[len(encoded) - (keep - keep // 2) :]
    cut = head.decode(errors="ignore") + CUT + tail.decode(errors="ignore")
    if len(cut) >= len(text):
        return None
    return (*messages[:longest], {**messages[longest], "content": cut}, *messages[longest + 1 :])


CONTEXT_CUT: Final = "context_cut"
READ_SHARE: Final = 0.5
"""An answer to less of the request than this is not used."""
MIN_CONTEXT: Final = 256
"""A server that counts fewer tokens counts something else: no context is so short."""
MIN_TOKENS: Final = 500
"""Shorter requests fit into every context."""
SUSPECT_RATIO: Final = 4.8
"""Bytes of a request for each token that was read, from which on the calls before are looked at. English has about 4."""
UNKNOWN_RATIO: Final = 4.5
"""Bytes a token, for a model whose ratio is not known: more than any language and tokenizer have."""
_RATIOS: Final = (1.5, 6.0)
"""Ratios of a request that was read in full."""
_SIMILAR: Final = 0.7
"""A request that is so large a part of another shows whether that one can be read."""
_SAME: Final = 0.25
"""Tolerance for what a server counts without its cache."""
_EXACT: Final = 0.1
"""The same for a count that another request had too."""
_OTHER_LENGTH: Final = 0.1
"""Difference of two requests, as a part of the longer one, that cannot have equally many tokens."""
_MIN_CALLS: Final = 3
_CALLS: Final = CompiledStatement(f"""
select cast(request ->> '{REQUEST_BYTES}' as float8) as bytes, input_tokens from calls
where agent_id = :of_agent and model = :model and input_tokens > 0 and request ? '{REQUEST_BYTES}'
order by started_at desc limit 60
""")


async def find_cut(
    database: Database, agent_id: UUID, request: ChatRequest, answer: ChatAnswer
) -> str | None:
    """How much of `request` was read, as a sentence, if that is less than half; else None.

    Servers that count only what was not in their cache are no reason: see `_is_rest_alone`. Requests of different
    lengths with equally many tokens were cut.
    """
    read = answer.read_tokens
    sent = request.messages if answer.sent_messages is None else answer.sent_messages
    # Without a schema of the answer, which many servers do not show to the model.
    length = len(encode_json([*sent, *request.tools]))
    if read is None or read < MIN_CONTEXT or length / read < SUSPECT_RATIO:
        return None
    query = BoundQuery(_CALLS, {"of_agent": agent_id, "model": request.model}, _sizes_and_tokens)
    newest = await database.run(query)
    # Calls that were read in full.
    calls = [call for call in newest if _RATIOS[0] <= call[0] / call[1] <= _RATIOS[1]]
    ratio = UNKNOWN_RATIO
    if len(calls) >= _MIN_CALLS:
        ratio = min(median(size / tokens for size, tokens in calls), UNKNOWN_RATIO)
    expected = length / ratio
    if expected < MIN_TOKENS or read >= READ_SHARE * expected:
        return None
    is_cut_alike = any(
        tokens == read and abs(size - length) > _OTHER_LENGTH * max(size, length)
        for size, tokens in newest
    )
    largest = max((size for size, _ in calls), default=0.0)
    if not is_cut_alike and largest >= _SIMILAR * length:
        return None  # the server has read such a request before
    tolerance = _EXACT if is_cut_alike else _SAME
    if _is_rest_alone(sent, length, read * ratio, largest, tolerance):
        return None
    return (
        f"the server read only {read:,} of about {expected:,.0f} tokens of the request: its context is about {read:,}"
        " tokens"
    )


def _sizes_and_tokens(rows: list[Row]) -> list[tuple[float, int]]:
    """Bytes and tokens of calls."""
    return [(float(row.bytes), int(row.input_tokens)) for row in rows]


def _is_rest_alone(
    messages: Sequence[Message], length: int, read_bytes: float, largest: float, tolerance: float
) -> bool:
    """Whether the server has read the beginning of the request before, and counts the rest alone. `largest` is the length
    of the longest request that it has read.
    """
    answers = [index for index, each in enumerate(messages) if each.get("role") == "assistant"]
    if not answers:
        return False
    rest = len(encode_json(list(messages[answers[-1] :])))
    return abs(read_bytes - rest) <= tolerance * rest and largest >= _SIMILAR * (length - rest)
