"""Structured answers: a pydantic model in, an instance of it out."""

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import PermanentError
from shared.llm.chat import ChatAnswer, ChatRequest
from shared.llm.phase import PhaseRun

T = TypeVar("T", bound=BaseModel)

_FENCE = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*```\s*$", re.DOTALL)


async def structured(run: PhaseRun, shape: type[T], *, name: str) -> T:
    """The model's answer as a `shape`; one that does not fit is sent back once, with what is wrong with it.

    `shape` must forbid extra fields and have no defaults, as strict JSON Schemas demand. Raises PermanentError with
    code `invalid_answer` when the second answer does not fit either.
    """
    response_format = {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": shape.model_json_schema()},
    }

    def fits(answer: ChatAnswer) -> bool:
        return isinstance(_parsed(shape, answer), shape)

    request = await run.begin(response_format=response_format)
    _, answer = await run.answer_to(request, is_last=fits)
    parsed = _parsed(shape, answer)
    if isinstance(parsed, ValidationError):
        repair = _repair(request, answer, parsed)
        _, answer = await run.answer_to(repair, is_last=fits)
        parsed = _parsed(shape, answer)
    if isinstance(parsed, ValidationError):
        raise PermanentError(
            "invalid_answer", f"the model's {name} does not fit, asked twice: {_told(parsed)}"
        )
    return parsed


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
    said: dict[str, Any] = {"role": "assistant", "content": answer.text}
    return request.following(said, {"role": "user", "content": wanted})


def _told(error: ValidationError) -> str:
    return "\n".join(
        f"- {'.'.join(str(part) for part in fault['loc']) or 'answer'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:20]
    )
