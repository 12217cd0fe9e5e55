"""Keeps requests within the context of a model: local servers have 8,000 to 32,000 tokens for request and answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from shared.billing.resumable_call import ResumableCall
from shared.errors import PermanentError, unbilled
from shared.llm.messages import ChatAnswer, ChatRequest, Message, encode_json
from shared.llm.model_server import SettingNames
from shared.llm.provider import OnDelta, Provider

CONTEXT_TOO_SMALL: Final = "context_too_small"
BYTES_PER_TOKEN: Final = 3
"""Of UTF-8. English prose has about 4, JSON 3.2, Chinese 3: an estimate that is rarely too low."""
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
        raise unbilled(
            PermanentError(
                CONTEXT_TOO_SMALL,
                f"a request of {length:,} tokens does not fit into the model's context of {context_tokens:,}"
                f" ({setting}), of which a quarter is kept for the answer: serve the model with a"
                " longer context, or lower VIGIL_CONTEXT_TOKENS",
            )
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
    cut = _cut(text, excess)
    if len(cut) >= len(text):
        return None
    return (*messages[:longest], {**messages[longest], "content": cut}, *messages[longest + 1 :])


def _cut(text: str, excess: int) -> str:
    """`text` without `excess` bytes in the middle: the task stands at its end, and the mission at its beginning."""
    encoded = text.encode(errors="replace")
    keep = max(len(encoded) - excess - len(CUT), 0)
    head, tail = encoded[: keep // 2], encoded[len(encoded) - (keep - keep // 2) :]
    return head.decode(errors="ignore") + CUT + tail.decode(errors="ignore")
