"""Structured answers: returns a model's answer as an instance of a pydantic class."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.llm.answer_errors import NoAnswerError
from shared.llm.ledgered_model import read_answer
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import PhaseRun
from shared.llm.repair import Repairs, fit_to_schema, read_json
from shared.tools.schemas import portable_schema

T = TypeVar("T", bound=BaseModel)

MAX_WITHOUT_ANSWER: Final = 3
"""Refusals, endless repetitions or empty answers before the answer counts as unusable."""

ParseAnswer = Callable[[Any, Repairs], T]
"""Converts the model's JSON value. Raises ValueError if it is invalid; the model receives the message."""

_CORRECTION: Final = """\
Your answer does not fit the JSON Schema that was asked for:
{}
Answer again with the whole corrected JSON and nothing else."""


class UnusableAnswerError(PermanentError):
    """The model gave two invalid answers, or none. `request` is the first request, for a different follow-up."""

    def __init__(self, message: str, request: ChatRequest) -> None:
        super().__init__("invalid_answer", message)
        self.request = request


async def request_structured_answer(
    run: PhaseRun,
    request: ChatRequest,
    shape: type[T],
    *,
    name: str,
    parse: ParseAnswer[T] | None = None,
    subject: str | None = None,
) -> tuple[T, ChatRequest]:
    """Requests an answer as a `shape`. Also returns the conversation including the answer, for the next request.

    Sends an invalid answer back to the model once, with its errors. `shape` must forbid extra fields and have no defaults,
    as strict JSON Schemas require. Raises UnusableAnswerError if the second answer is invalid too, or the model repeatedly
    gives no answer.

    Repairs the answer as far as possible and records the repairs before validation; `parse` does it for shapes with their
    own rules. The repairs are recorded for `subject`, by default `name`. The answer does not end the run.
    """
    first = request
    for _ in range(2):
        try:
            reading = await run.model.answer(
                request, read_answer, max_without_answer=MAX_WITHOUT_ANSWER
            )
        except NoAnswerError as error:
            raise UnusableAnswerError(str(error), first) from error
        answer, repairs = reading.answer, Repairs()
        message = {"role": "assistant", "content": answer.text}
        try:
            value = read_json(answer.text, repairs, is_cut=answer.finish_reason == "length")
            if parse is None:
                value = fit_to_schema(shape, value, repairs, salvage=True)
                parsed = shape.model_validate(value)
            else:
                parsed = parse(value, repairs)
        except ValueError as error:  # a ValidationError among them
            fault = _error_lines(error)
            correction = {"role": "user", "content": _CORRECTION.format(fault)}
            request = replace(request.following(message, correction), is_correction=True)
        else:
            await run.record_repairs(subject or name, repairs, key=str(reading.call_id))
            return parsed, request.following(message)
    raise UnusableAnswerError(
        f"the model's {name} does not fit its JSON Schema, even after a correction: {fault}", first
    )


def response_format(shape: type[BaseModel], name: str) -> dict[str, Any]:
    """Returns the `response_format` of a request for a `shape`."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": _schema(shape)},
    }


@cache
def _schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Cached, because it takes a millisecond. Callers must not change it."""
    return portable_schema(shape.model_json_schema(), keep_max_items=True)


def _error_lines(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"- answer: {error}"
    return "\n".join(
        f"- {'.'.join(str(part) for part in fault['loc']) or 'answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:20]
    )
