"""A provider whose answers a test chooses, for a phase that stores conclusions and for the one that reads them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.billing.resumable_call import ResumableCall
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.provider import OnDelta
from shared.tools import Json

TOKENS: Final = (1_000, 100)
Verdicts = Callable[[str], Sequence[str] | str]
"""The lines of an answer to the message that is to be read, or its whole text."""


def all_supported(message: str) -> list[str]:
    """Each claim with a quote that was not read before, and each sentence, is supported."""
    claims, _, conclusions = message.partition("<conclusions>")
    numbers = [
        line.split(" ")[0]
        for line in claims.splitlines()
        if "»" in line
        and not line.split(" ", 1)[1].startswith(("(supported)", "(not stated)", "(contradicted)"))
    ]
    return [f"{number} s" for number in numbers] + [
        f"{line.split(' ')[0]} ss" for line in conclusions.splitlines() if line[:1].isdigit()
    ]


def failing(text: str, code: str = "sn it is not there") -> Verdicts:
    """The sentences with this text fail, and everything else is supported."""

    def verdicts(message: str) -> list[str]:
        bad = {line.split(" ")[0] for line in message.splitlines() if text in line}
        return [
            f"{line.split(' ')[0]} {code}"
            if line.split(" ")[0] in bad and line.endswith("ss")
            else line
            for line in all_supported(message)
        ]

    return verdicts


@dataclass
class ReadingModel:
    """`rounds` has the calls of tools for each answer of the phase that stores; after these it ends."""

    rounds: Sequence[Sequence[tuple[str, Json]]]
    verdicts: Verdicts = all_supported
    error: BaseException | None = None
    """Raised in place of a reading."""
    read: list[str] = field(default_factory=list)
    """The messages that were to be read."""
    results: list[str] = field(default_factory=list)
    """What the phase that stores was told of its calls."""
    sent: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.sent.append(request)
            if request.response_format is not None:
                return self._reading(request.messages[-1]["content"])
            told = [each["content"] for each in request.messages if each["role"] == "tool"]
            answered = sum(each["role"] == "assistant" for each in request.messages)
            if (corrected := request.messages[-1]["content"]).startswith("<refused>"):
                # It follows the first answer, and has no conversation.
                told, answered = [corrected], 1
            self.results = told
            calls = self.rounds[answered] if answered < len(self.rounds) else ()
            tool_calls = [
                {
                    "id": f"c{answered}x{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for place, (name, arguments) in enumerate(calls)
            ]
            message: Json = {"role": "assistant", "content": "" if tool_calls else "Done."}
            if tool_calls:
                message["tool_calls"] = tool_calls
            return ChatAnswer(message, "tool_calls" if tool_calls else "stop", *TOKENS)

    def _reading(self, message: str) -> ChatAnswer:
        self.read.append(message)
        if self.error is not None:
            raise self.error
        verdicts = self.verdicts(message)
        text = verdicts if isinstance(verdicts, str) else json.dumps({"verdicts": [*verdicts]})
        return ChatAnswer({"role": "assistant", "content": text}, "stop", *TOKENS)

    async def close(self) -> None:
        return
