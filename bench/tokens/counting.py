"""Counts the tokens of recorded calls, by part of the prompt, and simulates the provider's prompt cache.

The tokenizer is OpenAI's o200k_base. A request is counted in the order in which servers put it before the model: tools,
answer format, messages. Servers add their own markup to it, which is not published; MESSAGE_TOKENS stands for it.
"""

import json
import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from itertools import groupby
from typing import Any, Final

import tiktoken

from bench.tokens.run import RecordedCall, Recording
from services.api.web.libraries import VENDOR
from shared.llm.messages import ChatAnswer

MESSAGE_TOKENS: Final = 4
_VOCABULARY: Final = VENDOR / "for_tests" / "o200k_base.json"
"""From the npm package `tiktoken`: the Python package downloads it from a host that is not reachable everywhere."""


class Part(StrEnum):
    """A part of a prompt."""

    TOOLS = "tools"
    FORMAT = "format"
    SYSTEM = "system"
    CONTEXT = "context"
    """What the graph holds: sections of a user message in CONTEXT_TAGS."""
    TASK = "task"
    """All else in the user's messages: mission, instructions, query, document."""
    ANSWERS = "answers"
    """Earlier answers of the same run."""
    RESULTS = "results"
    """Results of tools."""


CONTEXT_TAGS: Final = ("graph_context", "relevant_nodes", "analyses", "memories")
_CONTEXT: Final = re.compile(rf"^<({'|'.join(CONTEXT_TAGS)})>\n.*?^</\1>", re.DOTALL | re.MULTILINE)


@cache
def _encoding() -> tiktoken.Encoding:
    content = json.loads(_VOCABULARY.read_text())
    ranks: dict[bytes, int] = {}
    for line in content["bpe_ranks"].splitlines():
        _, first, *tokens = line.split(" ")
        ranks |= {b64decode(token): rank for rank, token in enumerate(tokens, int(first))}
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=content["pat_str"],
        mergeable_ranks=ranks,
        special_tokens=content["special_tokens"],
    )


@cache
def encode(text: str) -> tuple[int, ...]:
    """The tokens of `text`."""
    return tuple(_encoding().encode_ordinary(text))


def segments(request: Mapping[str, Any]) -> Iterator[tuple[Part, str]]:
    """The parts of a request, in order."""
    for tool in request.get("tools", ()):
        yield Part.TOOLS, _json(tool["function"])
    if (answer_format := request.get("response_format")) is not None:
        yield Part.FORMAT, _json(answer_format.get("json_schema", answer_format))
    for message in request["messages"]:
        yield from _message_segments(message)


def _message_segments(message: Mapping[str, Any]) -> Iterator[tuple[Part, str]]:
    content = message.get("content") or ""
    match message["role"]:
        case "system" | "developer":
            yield Part.SYSTEM, content
        case "tool":
            yield Part.RESULTS, content
        case "assistant":
            yield Part.ANSWERS, _answer_text(message)
        case _:
            end = 0
            for match in _CONTEXT.finditer(content):
                yield Part.TASK, content[end : match.start()]
                yield Part.CONTEXT, match[0]
                end = match.end()
            yield Part.TASK, content[end:]


def _answer_text(message: Mapping[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    texts = [
        message.get("content") or "",
        *(f"{call['name']} {call['arguments']}" for call in calls),
    ]
    return "\n".join(filter(None, texts))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class CountedCall:
    call: RecordedCall

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """The input."""
        return tuple(
            token for _, text in segments(self.call.exchange.request) for token in encode(text)
        )

    @property
    def input(self) -> int:
        return len(self.tokens) + MESSAGE_TOKENS * len(self.call.exchange.request["messages"])

    @cached_property
    def output(self) -> int:
        answer: ChatAnswer = self.call.exchange.answer
        return len(encode(_answer_text(answer.message))) + MESSAGE_TOKENS

    @cached_property
    def by_part(self) -> dict[Part, int]:
        parts: dict[Part, int] = defaultdict(int)
        for part, text in segments(self.call.exchange.request):
            parts[part] += len(encode(text))
        return dict(parts)

    @property
    def run(self) -> tuple[int, str, int, str]:
        """The phase run that it belongs to."""
        call = self.call
        return call.iteration, call.kind, call.step, call.phase


def counted(recording: Recording) -> list[CountedCall]:
    return [CountedCall(call) for call in recording.calls]


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    most = min(len(one), len(other))
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# The simulated cache follows what OpenAI documents: https://platform.openai.com/docs/guides/prompt-caching
CACHE_MIN_TOKENS: Final = 1_024
CACHE_STEP_TOKENS: Final = 128
CACHE_SECONDS: Final = 300.0
"""Lifetime of a prefix since its last use."""
SECONDS_PER_INPUT_TOKEN: Final = 1 / 5_000
SECONDS_PER_OUTPUT_TOKEN: Final = 1 / 80
"""Assumed speed of a server, for the time at which a call ends."""
STAGES: Final = ("observe", "query", "insight", "advise")


@dataclass(frozen=True)
class _Sent:
    tokens: tuple[int, ...]
    starts: float
    ends: float


def cached_tokens(calls: Sequence[CountedCall], interval_seconds: float) -> list[int]:
    """Simulates the cache; returns the input tokens of each call that it holds.

    An iteration starts every `interval_seconds`. The steps of a stage run in parallel, the calls of a step one after the
    other. A prefix can be used from the end of the call that brought it.
    """
    sent = _schedule(calls, interval_seconds)
    used_at: list[float] = [each.ends for each in sent]
    hits = [0] * len(calls)
    for place in sorted(range(len(sent)), key=lambda place: sent[place].starts):
        now = sent[place]
        best = 0
        holder = None
        for earlier, other in enumerate(sent):
            is_there = other.ends <= now.starts <= used_at[earlier] + CACHE_SECONDS
            if earlier != place and is_there:
                length = common_prefix(now.tokens, other.tokens)
                if length > best:
                    best, holder = length, earlier
        if best >= CACHE_MIN_TOKENS and holder is not None:
            hits[place] = best // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS
            used_at[holder] = max(used_at[holder], now.ends)
    return hits


def _schedule(calls: Sequence[CountedCall], interval_seconds: float) -> list[_Sent]:
    starts: dict[int, _Sent] = {}
    place_of = {id(call): place for place, call in enumerate(calls)}
    in_order = sorted(calls, key=lambda call: (call.call.iteration, STAGES.index(call.call.kind)))
    clock = 0.0
    for number, of_iteration in groupby(in_order, lambda call: call.call.iteration):
        clock = max(clock, (number - 1) * interval_seconds)
        for _, of_stage in groupby(of_iteration, lambda call: call.call.kind):
            stage_ends = clock
            by_step: dict[int, list[CountedCall]] = defaultdict(list)
            for call in of_stage:
                by_step[call.call.step].append(call)
            for of_step in by_step.values():
                at = clock
                for call in of_step:
                    ends = (
                        at
                        + call.input * SECONDS_PER_INPUT_TOKEN
                        + call.output * SECONDS_PER_OUTPUT_TOKEN
                    )
                    starts[place_of[id(call)]] = _Sent(call.tokens, at, ends)
                    at = ends
                stage_ends = max(stage_ends, at)
            clock = stage_ends
    return [starts[place] for place in range(len(calls))]
