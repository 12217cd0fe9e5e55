"""Provider for OpenAI's Responses API in background mode, in which an answer has an id as soon as it is requested."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import openai

from shared.billing.resumable_call import CallLostError, ResumableCall, poll_until_done
from shared.database.text import error_text
from shared.errors import PermanentError
from shared.llm.adaptation import Adaptations
from shared.llm.answer_errors import (
    AnswerError,
    AnswerTimeoutError,
    LostAnswerError,
    MalformedAnswerError,
)
from shared.llm.answers import AnswerParts, read_call
from shared.llm.messages import ChatAnswer, ChatRequest, Message
from shared.llm.model_server import BYTES_PER_TOKEN, IDEMPOTENCY_KEY, REFUSED_REQUEST, ModelServer
from shared.llm.provider import OnDelta
from shared.llm.usage import parse_usage
from shared.server_json import as_text
from shared.tools.schemas import without_max_items

Json = dict[str, Any]


def request_body(request: ChatRequest) -> Json:
    """Returns the body of the request."""
    body: Json = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
    }
    if request.tools:
        # The API's default is strict, which does not allow optional arguments.
        body["tools"] = [
            {"type": "function", "strict": False, **tool["function"]} for tool in request.tools
        ]
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    text: Json = {}
    if request.response_format is not None:
        schema = without_max_items(request.response_format["json_schema"])
        text["format"] = {"type": "json_schema", **schema}
    if request.cache_key is not None:
        body["prompt_cache_key"] = request.cache_key
    for name, value in request.options.items():
        match name:
            case "reasoning_effort":
                body["reasoning"] = {"effort": value}
            case "verbosity":
                text["verbosity"] = value
            case _:
                body[name] = value
    return {**body, "text": text} if text else body


def parse_response(server: str, response: Json) -> ChatAnswer:
    """Returns the answer of a complete or truncated response. The finish reason of a truncated one says why.

    Raises AnswerError if it is unusable.
    """
    usage = parse_usage(response, "input_tokens", "output_tokens")
    parts = AnswerParts(usage=usage)
    try:
        items = response.get("output")
        if not isinstance(items, list):
            raise MalformedAnswerError("its output is not a list")
        output = [item for item in items if isinstance(item, dict)]
        messages = [item for item in output if item.get("type") == "message"]
        # If a message is marked as the final answer, the others are comments.
        final = [item for item in messages if item.get("phase") == "final_answer"]
        for message in final or messages:
            parts.add_message(message)
        for item in output:
            if item.get("type") == "function_call":
                if item.get("name") is None:
                    raise MalformedAnswerError("a function call has no name")
                function = {name: item.get(name) for name in ("name", "arguments")}
                call = read_call({"id": item.get("call_id"), "function": function})
                parts.calls.append(call)
        parts.more = {OUTPUT: output}
    except MalformedAnswerError as error:
        raise AnswerError(
            f"{server} sent a response that cannot be read: {error}",
            excerpt=as_text(response),
            usage=usage,
        ) from None
    match response:
        case {"status": "incomplete", "incomplete_details": {"reason": str(reason)}}:
            parts.finish_reason = "length" if reason == "max_output_tokens" else reason
        case {"status": "incomplete"}:
            parts.finish_reason = "length"
    return parts.answer(server, parts.refusal or parts.text or as_text(response))


OUTPUT: Final = "output"
"""The field of a recorded message with tool calls that has all items of its response, with the reasoning."""


def _items(message: Message) -> Iterator[Json]:
    """Converts a message. One of this server is sent back as it was, with its reasoning.

    Without the reasoning, items have no ids, because with them OpenAI would require the reasoning too.
    """
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
        return
    calls = message.get("tool_calls") or []
    output = message.get(OUTPUT) or ()
    if calls and [call["id"] for call in calls] == [
        item.get("call_id") for item in output if item.get("type") == "function_call"
    ]:
        yield from output
        return
    if message["content"] or not calls:
        yield {"type": "message", "role": message["role"], "content": message["content"] or ""}
    for call in calls:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


_REASONING: Final = "reasoning.encrypted_content"
"""Without it, reasoning that is sent back is not found where an account stores no data."""
_RUNNING: Final = ("queued", "in_progress")
_ENDED: Final = ("completed", "incomplete")
_TRANSIENT_CODES = ("server_error", "rate_limit_exceeded")


class BackgroundProvider:
    """OpenAI and compatible servers of the Responses API with `background` and `store`. They store answers for a while."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._adaptations = Adaptations(server.name, server.warn)
        self._ended: dict[str, Json] = {}
        """Responses by id that were complete at once, as a server without background mode sends them."""
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """Waits for the answer without a time limit. If it is cancelled, a resumed step collects the answer.

        Never calls `on_delta`: the answer is only collected when it is complete.
        """
        return await in_flight.resume_or_start(
            partial(self._order, request, in_flight), partial(self._collect, request.model)
        )

    async def _order(self, request: ChatRequest, in_flight: ResumableCall, key: str) -> str:
        async def order_once(body: Json) -> str:
            tokens = len(request.call.canonical) // BYTES_PER_TOKEN
            passage_of_call = self._server.gate.passage(
                tokens=tokens,
                waited_seconds=in_flight.waited_seconds,
                waiting=in_flight.waiting,
            )
            async with in_flight.attempt(), passage_of_call as passage:
                pending_response = self._server.client.responses.with_raw_response.create(
                    extra_headers={IDEMPOTENCY_KEY: key},
                    extra_body=body,
                )
                try:
                    response = await self._server.json_object(pending_response, request.model)
                except AnswerTimeoutError as error:
                    if (lost := await self._server.during_outage(passage, error)) is not None:
                        raise lost from error
                    raise
                passage.answered()
                reference = response.get("id")
                if not isinstance(reference, str) or not reference:
                    raise AnswerError(
                        f"{self._server.name} accepted a request and returned no id",
                        excerpt=as_text(response),
                    )
                if response.get("status") in _ENDED:
                    self._ended[reference] = response
                return reference

        return await self._adaptations.send(
            {**request_body(request), "background": True, "store": True, "include": [_REASONING]},
            lambda body: self._server.with_quick_retries(
                lambda: order_once(body), waited_seconds=in_flight.waited_seconds
            ),
        )

    async def _collect(self, model: str, reference: str) -> ChatAnswer:
        response = self._ended.pop(reference, None)
        if response is None:
            response = await poll_until_done(partial(self._poll, model, reference))
        if response.get("status") not in _ENDED:
            raise _response_error(reference, response)
        try:
            answer = parse_response(self._server.name, response)
        except AnswerError as error:
            raise LostAnswerError(error) from error
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        return answer

    async def _poll(self, model: str, reference: str) -> Json | None:
        try:
            response = await self._server.json_object(
                self._server.client.responses.with_raw_response.retrieve(reference), model
            )
        except PermanentError as error:
            if isinstance(error.__cause__, openai.NotFoundError):
                raise CallLostError(
                    f"the model server no longer has the answer {reference}"
                ) from error
            raise
        return None if response.get("status") in _RUNNING else response


def _response_error(reference: str, response: Json) -> CallLostError | PermanentError:
    """Returns the error for an answer that failed or was cancelled."""
    error: Any = response.get("error")
    if not isinstance(error, dict):
        details = f": {error_text(str(error))}" if error else ""
        status = error_text(str(response.get("status")))
        return CallLostError(f"the model's answer {reference} ended with status {status}{details}")
    message = error_text(str(error.get("message")))
    if error.get("code") in _TRANSIENT_CODES:
        return CallLostError(f"the model's answer {reference} failed: {message}")
    return PermanentError(REFUSED_REQUEST, f"the model refused: {message}")
