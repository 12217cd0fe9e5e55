"""An answer put together from the pieces in which a server streams it."""

from dataclasses import dataclass, field

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from shared.errors import TransientError
from shared.llm.chat import ChatAnswer, ToolCall, assistant_message


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Streamed:
    """Takes chunks in their order. By hand and not by the SDK's helper, which trips over servers that leave things out."""

    text: str = ""
    _calls: list[_Call] = field(default_factory=list)
    _at: dict[int, _Call] = field(default_factory=dict)
    """The call that pieces of an index belong to at present."""
    _finish_reason: str | None = None
    _usage: CompletionUsage | None = None

    def take(self, chunk: ChatCompletionChunk) -> bool:
        """Whether the text has grown."""
        self._usage = chunk.usage or self._usage
        if not chunk.choices:
            return False
        choice = chunk.choices[0]
        self._finish_reason = choice.finish_reason or self._finish_reason
        for call in choice.delta.tool_calls or []:
            self._take_call(call)
        self.text += choice.delta.content or ""
        return bool(choice.delta.content)

    def answer(self) -> ChatAnswer:
        """The whole answer. Raises TransientError where it broke off, or never began."""
        if self._finish_reason is None:
            raise TransientError("the model server's answer broke off in the middle")
        calls = [ToolCall(call.id, call.name, call.arguments) for call in self._calls]
        return ChatAnswer(
            message=assistant_message(self.text or None, calls),
            finish_reason=self._finish_reason,
            input_tokens=self._usage.prompt_tokens if self._usage else None,
            output_tokens=self._usage.completion_tokens if self._usage else None,
        )

    def _take_call(self, piece: ChoiceDeltaToolCall) -> None:
        call = self._at.get(piece.index)
        # Some servers send every call whole, all under the same index: there a new id is a new call.
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = self._at[piece.index] = _Call()
            self._calls.append(call)
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            call.arguments += piece.function.arguments or ""
