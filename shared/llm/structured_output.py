"""Structured answers: returns a model's answer as an instance of a pydantic class."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.llm.messages import ChatAnswer, ChatRequest, Message
from shared.llm.phase_run import NoAnswerError, PhaseRun
from shared.llm.repair import Repairs, fit_to_schema, read_json
from shared.tools.schemas import portable_schema

T = TypeVar("T", bound=BaseModel)

MAX_WITHOUT_ANSWER: Final = 3
"""Refusals, endless repetitions or empty answers before the answer counts as unusable."""

ParseAnswer = Callable[[Any, Repairs], T]
"""Converts the model's JSON value. Raises ValueError if it is invalid; the model receives the message."""


class UnusableAnswerError(PermanentError):
    """The model gave two invalid answers, or none. `request` is the first request, for a different follow-up."""

    def __init__(self, message: str, request: ChatRequest) -> None:
        super().__init__("invalid_answer", message)
        self.request = request


async def request_structured(run: PhaseRun, shape: type[T], *, name: str) -> T:
    """Starts the run and returns the model's answer as a `shape`.

    Sends an invalid answer back to the model once, with its errors.
    `shape` must forbid extra fields and have no defaults, as strict JSON Schemas require. Raises UnusableAnswerError if the
    second answer is invalid too, or the model repeatedly gives no answer.
    """
    request = await run.begin(response_format=response_format(shape, name))
    parsed, _ = await request_structured_answer(run, request, shape, name=name, ends=True)
    return parsed


async def request_structured_answer(
    run: PhaseRun,
    request: ChatRequest,
    shape: type[T],
    *,
    name: str,
    ends: bool,
    parse: ParseAnswer[T] | None = None,
    subject: str | None = None,
) -> tuple[T, ChatRequest]:
    """Does the same in a run that has begun. Also returns the conversation including the answer, for the next request.

    Repairs the answer as far as possible and records the repairs before validation; `parse` does it for shapes with their
    own rules. The repairs are recorded for `subject`, by default `name`. `ends` says whether the answer ends the run.
    """
    reading = parse or partial(_fit, shape)

    def fits(answer: ChatAnswer) -> bool:
        return not isinstance(_parse(reading, answer, Repairs()), ValueError)

    def is_last(answer: ChatAnswer) -> bool:
        return ends and fits(answer)

    first = request
    for attempt in range(2):
        try:
            call_id, answer = await run.request_answer(
                request, is_last=is_last, max_without_answer=MAX_WITHOUT_ANSWER
            )
        except NoAnswerError as error:
            raise UnusableAnswerError(str(error), first) from error
        repairs = Repairs()
        parsed = _parse(reading, answer, repairs)
        if not isinstance(parsed, ValueError):
            await run.record_repairs(subject or name, repairs, key=str(call_id))
            return parsed, request.following(_assistant_message(answer))
        if attempt == 0:
            request = _correction_request(request, answer, parsed)
        fault = _error_lines(parsed)
    raise UnusableAnswerError(f"the model's {name} does not fit, asked twice: {fault}", first)


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


def _fit(shape: type[T], value: Any, repairs: Repairs) -> T:
    return shape.model_validate(fit_to_schema(shape, value, repairs, salvage=True))


def _parse(parse: ParseAnswer[T], answer: ChatAnswer, repairs: Repairs) -> T | ValueError:
    try:
        value = read_json(answer.text, repairs, is_cut=answer.finish_reason == "length")
        return parse(value, repairs)
    except ValueError as error:  # a ValidationError among them
        return error


def _correction_request(request: ChatRequest, answer: ChatAnswer, error: ValueError) -> ChatRequest:
    correction = (
        "Your answer does not fit the JSON Schema that was asked for:\n"
        f"{_error_lines(error)}\nAnswer again with the whole corrected JSON and nothing else."
    )
    again = request.following(_assistant_message(answer), {"role": "user", "content": correction})
    return replace(again, is_correction=True)


def _assistant_message(answer: ChatAnswer) -> Message:
    return {"role": "assistant", "content": answer.text}


def _error_lines(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"- answer: {error}"
    return "\n".join(
        f"- {'.'.join(str(part) for part in fault['loc']) or 'answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:20]
    )
