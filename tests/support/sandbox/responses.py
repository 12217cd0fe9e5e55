"""POST /v1/responses (background mode) and GET /v1/responses/{id}."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError
from sandbox.http.endpoint import Reply, error_response
from sandbox.http.openai import INVALID, chat_call, check_key, checked_body, server_error
from sandbox.http.openai_format import CREATED, error_body, tool_calls
from sandbox.model.request import Answer
from tests.support.sandbox.controls import (
    ControlledCall,
    ControlledHandler,
    apply_error_faults,
    controlled_call,
    send_options,
)
from tests.support.sandbox.meter import Meter
from tests.support.sandbox.replies import PiecesResponse

ITEM_HASH_CHARS = 24


def to_chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a request to chat completions' format. Other kinds of items than Vigil's are ignored."""
    chat: dict[str, Any] = {"model": body.get("model"), "messages": _messages(body)}
    tools = [_tool(tool) for tool in body.get("tools") or []]
    if tools:
        chat["tools"] = tools
    if "max_output_tokens" in body:
        chat["max_completion_tokens"] = body["max_output_tokens"]
    text_format = (body.get("text") or {}).get("format") or {}
    if text_format.get("type") == "json_schema":
        schema = {key: value for key, value in text_format.items() if key != "type"}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat


def response_object(response_id: str, model: str, status: str, **fields: Any) -> dict[str, Any]:
    """A response object with the given fields."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": True,
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def output_items(request_hash: str, answer: Answer) -> list[dict[str, Any]]:
    """The output items of an answer: its text, then its calls."""
    completed = {"status": "completed"}
    text = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"type": "message", "role": "assistant", "content": [text], **completed}
    message["id"] = f"msg_{request_hash[:ITEM_HASH_CHARS]}"
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{place}_{request_hash[:ITEM_HASH_CHARS]}",
            "call_id": call["id"],
            **call["function"],
            **completed,
        }
        for place, call in enumerate(tool_calls(request_hash, answer))
    ]
    return [message, *calls] if answer.text or not calls else calls


def responses_usage(usage: Mapping[str, int]) -> dict[str, Any]:
    """Usage in the format of the Responses API."""
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    messages: list[dict[str, Any]] = []
    for item in items if isinstance(items, list) else []:
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, **rest}:
                function = {"name": name, "arguments": rest.get("arguments", "")}
                _assistant_calls(messages).append(
                    {"id": call_id, "type": "function", "function": function}
                )
            case {"type": "function_call_output", "call_id": call_id, "output": result}:
                messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
            case {"role": role, "content": content}:
                messages.append({"role": role, "content": content})
            case _:
                continue
    return messages


def _assistant_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls of the last assistant message, which is created if there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    calls: list[dict[str, Any]] = messages[-1].setdefault("tool_calls", [])
    return calls


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {key: value for key, value in tool.items() if key not in ("type", "strict")}
    return {"type": "function", "function": function}


MAX_RESPONSES = 1000


def responses_routes(handler: ControlledHandler) -> list[Route]:
    """The routes of the Responses API that Vigil uses."""
    responses = _Responses(handler)
    return [
        Route("/v1/responses", responses.create, methods=["POST"]),
        Route("/v1/responses/{response_id}", responses.retrieve, methods=["GET"]),
    ]


class _Responses:
    def __init__(self, handler: ControlledHandler) -> None:
        self._handler = handler
        self._controls = handler.controls
        self._count = 0
        self._answers: OrderedDict[str, tuple[Call, asyncio.Task[dict[str, Any]]]] = OrderedDict()

    async def create(self, request: Request) -> Response:
        """Return the id at once. The answer is made and billed in the background."""
        try:
            call = await _parse_call(request)
            return await self._controls.keys.answer_once(request, call, partial(self._begin, call))
        except RefusedError as error:
            return error_response(error)

    async def retrieve(self, request: Request) -> Response:
        """Return the response. Not billed: the answer is, when it is made."""
        response_id = request.path_params["response_id"]
        try:
            check_key(request)
        except RefusedError as error:
            return error_response(error)
        if response_id not in self._answers:
            message = f"Response with id '{response_id}' not found."
            return JSONResponse(error_body(message, INVALID, None, "response_id"), 404)
        call, answer = self._answers[response_id]
        if answer.done():
            return JSONResponse(answer.result())
        return JSONResponse(response_object(response_id, call.body["model"], "in_progress"))

    async def _begin(self, call: Call) -> PiecesResponse:
        meter, faults = self._controls.meter, self._controls.faults_of(call)
        apply_error_faults(faults, server_error)
        self._count += 1
        response_id = f"resp_{self._count:06}_{call.request_hash[:24]}"
        latency_seconds = sum(each.latency_seconds for each in faults)
        completion = asyncio.create_task(
            self._complete(response_id, controlled_call(call, faults), latency_seconds, meter)
        )
        self._answers[response_id] = (call, completion)
        if len(self._answers) > MAX_RESPONSES:
            self._answers.popitem(last=False)
        queued = response_object(response_id, call.body["model"], "queued")
        return PiecesResponse(Reply((json.dumps(queued).encode(),)), send_options(faults))

    async def _complete(
        self, response_id: str, call: ControlledCall, latency_seconds: float, meter: Meter
    ) -> dict[str, Any]:
        """The final response. A scripted error gives a failed one."""
        model = call.body["model"]
        await asyncio.sleep(self._handler.latency_seconds + latency_seconds)
        try:
            completed, usage = self._handler.complete(call)
        except RefusedError as error:
            code = "server_error" if error.status >= 500 else "invalid_prompt"
            failure = {"code": code, "message": error.body["error"]["message"]}
            return response_object(response_id, model, "failed", error=failure)
        meter.bill(call, call.usd)
        return response_object(
            response_id,
            model,
            "incomplete" if completed.is_cut else "completed",
            output=output_items(call.request_hash, completed),
            usage=responses_usage(usage),
            incomplete_details={"reason": "max_output_tokens"} if completed.is_cut else None,
        )


async def _parse_call(request: Request) -> Call:
    body = await checked_body(request)
    if body.get("background") is not True or body.get("store") is False:
        message = (
            "The sandbox answers only in the background: `background` and `store` must be true."
        )
        raise RefusedError(400, error_body(message, INVALID, None, "background"))
    return chat_call(request, to_chat_body(body), "input")
