"""Structured answers: a pydantic model in, an instance of it out."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.llm.messages import ChatAnswer, ChatRequest, Message
from shared.llm.phase_run import NoAnswerError, PhaseRun
from shared.llm.repair import Repairs, fitted, read_json
from shared.tools.schemas import portable_schema

T = TypeVar("T", bound=BaseModel)

MOST_WITHOUT_ANSWER: Final = 3
"""How often a model may refuse, repeat itself or say nothing before its answer counts as unusable."""

Read = Callable[[Any, Repairs], T]
"""Makes an answer of the JSON value that the model gave. Raises ValueError where it can be none, which the model is told."""


class UnusableAnswerError(PermanentError):
    """The model's answer did not fit, asked twice, or it gave none. `request` is the first one, to ask something else."""

    def __init__(self, message: str, request: ChatRequest) -> None:
        super().__init__("invalid_answer", message)
        self.request = request


async def structured(run: PhaseRun, shape: type[T], *, name: str) -> T:
    """The model's answer as a `shape`; one that does not fit is sent back once, with what is wrong with it.

    `shape` must forbid extra fields and have no defaults, as strict JSON Schemas demand. Raises UnusableAnswerError when
    the second answer does not fit either, or the model gives none several times.
    """
    request = await run.begin(response_format=response_format(shape, name))
    parsed, _ = await structured_answer(run, request, shape, name=name, ends=True)
    return parsed


async def structured_answer(
    run: PhaseRun,
    request: ChatRequest,
    shape: type[T],
    *,
    name: str,
    ends: bool,
    read: Read[T] | None = None,
    subject: str | None = None,
) -> tuple[T, ChatRequest]:
    """The same for a request of a run that has begun; and the conversation up to that answer, for what is asked next.

    What code can repair is repaired and recorded before the answer is judged; `read` does it for shapes with rules of
    their own. `subject` is what repairs are recorded of, without it `name`. `ends` says whether the run ends with it.
    """
    reading = read or partial(_fitted, shape)

    def fits(answer: ChatAnswer) -> bool:
        return not isinstance(_parsed(reading, answer, Repairs()), ValueError)

    def is_last(answer: ChatAnswer) -> bool:
        return ends and fits(answer)

    first = request
    for attempt in range(2):
        try:
            call_id, answer = await run.answer_to(
                request, is_last=is_last, most_without_answer=MOST_WITHOUT_ANSWER
            )
        except NoAnswerError as error:
            raise UnusableAnswerError(str(error), first) from error
        repairs = Repairs()
        parsed = _parsed(reading, answer, repairs)
        if not isinstance(parsed, ValueError):
            await run.note_repairs(subject or name, repairs, key=str(call_id))
            return parsed, request.following(_said(answer))
        if attempt == 0:
            request = _sent_back(request, answer, parsed)
        fault = _told(parsed)
    raise UnusableAnswerError(f"the model's {name} does not fit, asked twice: {fault}", first)


def response_format(shape: type[BaseModel], name: str) -> dict[str, Any]:
    """That the answer be a `shape`, as the model server is asked for it."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": _schema(shape)},
    }


@cache
def _schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Made once of each shape, which takes a millisecond: nobody may change it."""
    return portable_schema(shape.model_json_schema(), keep_max_items=True)


def _fitted(shape: type[T], value: Any, repairs: Repairs) -> T:
    return shape.model_validate(fitted(shape, value, repairs, salvage=True))


def _parsed(read: Read[T], answer: ChatAnswer, repairs: Repairs) -> T | ValueError:
    try:
        value = read_json(answer.text, repairs, is_cut=answer.finish_reason == "length")
        return read(value, repairs)
    except ValueError as error:  # a ValidationError among them
        return error


def _sent_back(request: ChatRequest, answer: ChatAnswer, error: ValueError) -> ChatRequest:
    wanted = (
        "Your answer does not fit the JSON Schema that was asked for:\n"
        f"{_told(error)}\nAnswer again with the whole corrected JSON and nothing else."
    )
    again = request.following(_said(answer), {"role": "user", "content": wanted})
    return replace(again, asks_again=True)


def _said(answer: ChatAnswer) -> Message:
    return {"role": "assistant", "content": answer.text}


def _told(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return f"- answer: {error}"
    return "\n".join(
        f"- {'.'.join(str(part) for part in fault['loc']) or 'answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:20]
    )
