"""Structured answers: a pydantic model in, an instance of it out."""

import re
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.llm.chat import ChatAnswer, ChatRequest, Message
from shared.llm.phase import PhaseRun

T = TypeVar("T", bound=BaseModel)

_FENCE = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*```\s*$", re.DOTALL)


async def structured(run: PhaseRun, shape: type[T], *, name: str) -> T:
    """The model's answer as a `shape`; one that does not fit is sent back once, with what is wrong with it.

    `shape` must forbid extra fields and have no defaults, as strict JSON Schemas demand. Raises PermanentError with
    code `invalid_answer` when the second answer does not fit either.
    """
    request = await run.begin(response_format=response_format(shape, name))
    parsed, _ = await structured_answer(run, request, shape, name=name, ends=True)
    return parsed


async def structured_answer(
    run: PhaseRun, request: ChatRequest, shape: type[T], *, name: str, ends: bool
) -> tuple[T, ChatRequest]:
    """The same for a request of a run that has begun; and the conversation up to that answer, for what is asked next.

    `ends` says whether the run ends with it.
    """

    def fits(answer: ChatAnswer) -> bool:
        return isinstance(_parsed(shape, answer), shape)

    def is_last(answer: ChatAnswer) -> bool:
        return ends and fits(answer)

    _, answer = await run.answer_to(request, is_last=is_last)
    parsed = _parsed(shape, answer)
    if isinstance(parsed, ValidationError):
        request = _repair(request, answer, parsed)
        _, answer = await run.answer_to(request, is_last=is_last)
        parsed = _parsed(shape, answer)
    if isinstance(parsed, ValidationError):
        raise PermanentError(
            "invalid_answer", f"the model's {name} does not fit, asked twice: {_told(parsed)}"
        )
    return parsed, request.following(_said(answer))


def response_format(shape: type[BaseModel], name: str) -> dict[str, Any]:
    """That the answer be a `shape`, as the model server is asked for it."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": _schema(shape)},
    }


@cache
def _schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Made once of each shape, which takes a millisecond: nobody may change it."""
    return shape.model_json_schema()


def _parsed(shape: type[T], answer: ChatAnswer) -> T | ValidationError:
    fenced = _FENCE.match(answer.text)
    try:
        return shape.model_validate_json(fenced.group(1) if fenced else answer.text)
    except ValidationError as error:
        return error


def _repair(request: ChatRequest, answer: ChatAnswer, error: ValidationError) -> ChatRequest:
    wanted = (
        "Your answer does not fit the JSON Schema that was asked for:\n"
        f"{_told(error)}\nAnswer again with the whole corrected JSON and nothing else."
    )
    return request.following(_said(answer), {"role": "user", "content": wanted})


def _said(answer: ChatAnswer) -> Message:
    return {"role": "assistant", "content": answer.text}


def _told(error: ValidationError) -> str:
    return "\n".join(
        f"- {'.'.join(str(part) for part in fault['loc']) or 'answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:20]
    )
