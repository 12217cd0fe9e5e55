"""The one door to the model."""

import asyncio
import math
import re
from typing import Any

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from shared.errors import PermanentError, TransientError
from shared.llm.chat import ChatAnswer, ChatRequest, Message
from shared.store.storable import error_text, storable

QUICK_TRIES = 3
LONGEST_QUICK_WAIT_SECONDS = 5.0
"""Short trouble is waited out here. For longer waits the step is given back, so that they hold up no slot and no lease;
the SDK's own retries would sleep through any Retry-After."""

_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class Provider:
    """Any server that speaks chat completions."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout_seconds: float) -> None:
        self._base_url = base_url
        self._client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout_seconds,
            max_retries=0,
        )

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Sends `request` and returns the answer.

        Raises PermanentError for what another try cannot mend (key, model, request), TransientError for the rest.
        """
        for tried in range(1, QUICK_TRIES):
            try:
                return await self._complete_once(request)
            except TransientError as error:
                wait_seconds = error.retry_in_seconds or 0.5 * 2.0**tried
                if wait_seconds > LONGEST_QUICK_WAIT_SECONDS:
                    raise
            await asyncio.sleep(wait_seconds)
        return await self._complete_once(request)

    async def _complete_once(self, request: ChatRequest) -> ChatAnswer:
        try:
            completion: ChatCompletion = await self._client.chat.completions.create(**request.body)
        except openai.APIConnectionError as error:  # its subclass APITimeoutError too
            where = self._base_url or "OpenAI"
            raise TransientError(f"no answer from the model server at {where}: {error}") from error
        except openai.APIStatusError as error:
            raise self._status_error(error, request.model) from error
        except (openai.APIError, ValueError) as error:
            raise TransientError(f"the model server's answer is not readable: {error}") from error
        return _answer(completion)

    async def close(self) -> None:
        await self._client.close()

    def _status_error(
        self, error: openai.APIStatusError, model: str
    ) -> PermanentError | TransientError:
        where = self._base_url or "OpenAI"
        said = f"{where} answered {error.status_code}: {error_text(_reason(error))}"
        match error.status_code:
            case 401 | 403:
                return PermanentError("llm_key", f"{said}. Check OPENAI_API_KEY")
            case 404:
                return PermanentError(
                    "llm_model", f"{said}. Check the model name {model!r} and OPENAI_BASE_URL"
                )
            case 429 if error.code == "insufficient_quota":
                return PermanentError("llm_quota", f"{said}. Check the account's plan and billing")
            case 408 | 409 | 429:
                return TransientError(said, retry_in_seconds=_retry_after_seconds(error))
            case status if status >= 500:
                return TransientError(said, retry_in_seconds=_retry_after_seconds(error))
            case _:
                return PermanentError("llm_request", said)


def _reason(error: openai.APIStatusError) -> str:
    """What the server said, without what the SDK wraps around it."""
    body = error.body
    told = body.get("message") if isinstance(body, dict) else None
    return (told if isinstance(told, str) else error.message).rstrip(". ")


def _retry_after_seconds(error: openai.APIStatusError) -> float | None:
    try:
        seconds = float(error.response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _answer(completion: ChatCompletion) -> ChatAnswer:
    if not completion.choices:
        raise TransientError("the model server answered without any choice")
    choice = completion.choices[0]
    usage = completion.usage
    return ChatAnswer(
        message=_message(choice.message),
        finish_reason=choice.finish_reason,
        input_tokens=usage.prompt_tokens if usage else None,
        output_tokens=usage.completion_tokens if usage else None,
    )


def _message(message: ChatCompletionMessage) -> Message:
    said: dict[str, Any] = {"role": "assistant", "content": _clean(message.content)}
    calls = [
        {
            # Some servers leave ids out or use one twice; the loop needs one for each call.
            "id": f"{call.id}_{index}",
            "type": "function",
            "function": {
                "name": _clean(call.function.name),
                "arguments": _clean(call.function.arguments),
            },
        }
        for index, call in enumerate(message.tool_calls or [])
        if call.type == "function"
    ]
    if calls:
        said["tool_calls"] = calls
    return said


def _clean(text: str | None) -> str | None:
    """`text` without what could not be stored, neither as it stands nor read as JSON: it was paid for."""
    if text is None:
        return None
    kept: str = storable(_ESCAPED_NUL.sub(r"\1", text))
    return kept
