"""The model by OpenAI's Responses API, in background mode: an answer has an id as soon as it is requested."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import openai

from shared.billing.resumable_call import CallLostError, InFlight, looked_for
from shared.database.text import error_text
from shared.errors import PermanentError
from shared.llm.answers import (
    AnswerError,
    Said,
    UnreadableError,
    arguments_of,
    text_of,
    usage_of,
)
from shared.llm.messages import ChatAnswer, ChatRequest, Message, ToolCall
from shared.llm.model_server import REFUSED_REQUEST, ModelServer
from shared.llm.provider import IDEMPOTENCY_KEY, Hear
from shared.tools.schemas import without_max_items

Json = dict[str, Any]

_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def body_of(request: ChatRequest) -> Json:
    """`request` as it is sent."""
    body: Json = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
    }
    if request.tools:
        body["tools"] = [_tool(tool["function"]) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
    if request.most_output_tokens is not None:
        body["max_output_tokens"] = request.most_output_tokens
    if request.response_format is not None:
        given = without_max_items(request.response_format["json_schema"])
        body["text"] = {"format": {"type": "json_schema", **given}}
    return body


def answer_of(server: str, response: Json) -> ChatAnswer:
    """The answer of a response that is complete, or was cut short: then its finish reason says why.

    Raises AnswerError where it cannot be used.
    """
    usage = usage_of(response.get("usage"), "input_tokens", "output_tokens")
    said = Said(usage=usage)
    try:
        output = _objects(response.get("output"))
        said.text, said.refusal = _text(output)
        said.calls = [_call(item) for item in output if item.get("type") == "function_call"]
    except UnreadableError as error:
        raise AnswerError(
            f"{server} sent a response that cannot be read, {error}",
            said=repr(response),
            usage=usage,
        ) from None
    said.finish_reason = _finish_reason(response, calls=bool(said.calls))
    return said.answer(server, said.refusal or said.text or repr(response))


def _items(message: Message) -> Iterator[Json]:
    """Ids of items are left out: by them OpenAI would look for the reasoning that stood beside them."""
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
        return
    calls = message.get("tool_calls") or []
    if message["content"] or not calls:
        yield {"type": "message", "role": message["role"], "content": message["content"] or ""}
    for call in calls:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _tool(function: Mapping[str, Any]) -> Json:
    # Strict unless it says otherwise, and then no argument may be left out.
    return {"type": "function", "strict": False, **function}


def _objects(given: Any) -> list[Json]:
    if not isinstance(given, list):
        raise UnreadableError("its output is no list")
    return [item for item in given if isinstance(item, dict)]


def _call(item: Json) -> ToolCall:
    name, call_id = item.get("name"), item.get("call_id")
    if not isinstance(name, str):
        raise UnreadableError("a function call has no name")
    return ToolCall(call_id if isinstance(call_id, str) else "", name, arguments_of(item) or "{}")


def _text(output: list[Json]) -> tuple[str, str]:
    """What it said, and what it refused. Thoughts told on the way are no part of it where it marks its last words."""
    said = [item for item in output if item.get("type") == "message"]
    final = [item for item in said if item.get("phase") == "final_answer"] or said
    parts = [text_of(item.get("content")) for item in final]
    return "".join(text for text, _ in parts), "".join(refusal for _, refusal in parts)


def _finish_reason(response: Json, *, calls: bool) -> str:
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        told = reason if isinstance(reason, str) else "length"
        return _FINISH_REASONS.get(told, told)
    return "tool_calls" if calls else "stop"


_MENDABLE_CODES = frozenset({"server_error", "rate_limit_exceeded"})


class BackgroundProvider:
    """OpenAI, and who speaks its Responses API with `background` and `store`: the answers lie there for a while."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        """Ends when the answer does, however long that takes. Cancelled, it leaves the answer to whoever resumes.

        `hear` is told nothing: an answer that is made in the background is collected when it is whole.
        """
        return await in_flight.found_or_ordered(
            partial(self._order, request, in_flight), partial(self._collect, request.model)
        )

    async def _order(self, request: ChatRequest, in_flight: InFlight, key: str) -> str:
        async def order_once() -> str:
            async with in_flight.sending():
                sent = self._server.client.responses.with_raw_response.create(
                    **body_of(request),
                    background=True,
                    store=True,
                    extra_headers={IDEMPOTENCY_KEY: key},
                )
                response = await self._server.object_of(sent, request.model)
                reference = response.get("id")
                if not isinstance(reference, str) or not reference:
                    raise AnswerError(
                        f"{self._server.name} took an order and gave no id", said=repr(response)
                    )
                return reference

        return await self._server.patiently(order_once)

    async def _collect(self, model: str, reference: str) -> ChatAnswer:
        response = await looked_for(partial(self._look, model, reference))
        if response.get("status") not in ("completed", "incomplete"):
            raise _unanswered(reference, response)
        try:
            answer = answer_of(self._server.name, response)
        except AnswerError as error:
            # Under this reference there will never be another: the next try orders it anew.
            raise CallLostError(str(error)) from error
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        return answer

    async def _look(self, model: str, reference: str) -> Json | None:
        try:
            response = await self._server.object_of(
                self._server.client.responses.with_raw_response.retrieve(reference), model
            )
        except PermanentError as error:
            if isinstance(error.__cause__, openai.NotFoundError):
                raise CallLostError(
                    f"the model server has no answer {reference} any more"
                ) from error
            raise
        return None if response.get("status") in ("queued", "in_progress") else response


def _unanswered(reference: str, response: Json) -> CallLostError | PermanentError:
    """What follows from an answer that failed or was cancelled."""
    error: Any = response.get("error")
    if not isinstance(error, dict):
        said = f": {error_text(str(error))}" if error else ""
        status = error_text(str(response.get("status")))
        return CallLostError(f"the model's answer {reference} ended as {status}{said}")
    message = error_text(str(error.get("message")))
    if error.get("code") in _MENDABLE_CODES:
        return CallLostError(f"the model's answer {reference} ended as failed: {message}")
    return PermanentError(REFUSED_REQUEST, f"the model refused: {message}")
