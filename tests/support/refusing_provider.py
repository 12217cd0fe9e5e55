"""A provider without usable responses."""

from dataclasses import dataclass

from shared.billing.resumable_call import ResumableCall
from shared.errors import PermanentError
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import REFUSED_CONTENT
from shared.llm.provider import OnDelta


@dataclass
class RefusingProvider:
    """A provider that bills every response and gives none that is usable."""

    kind: FailureKind
    refuses_content: bool = False
    """Whether a filter refuses each request instead, which costs nothing."""
    attempts: int = 0

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.attempts += 1
            if self.refuses_content:
                raise PermanentError(
                    REFUSED_CONTENT, "a filter refuses the request", is_unbilled=True
                )
            raise AnswerError("it has no time for this", kind=self.kind)

    async def close(self) -> None:
        return
