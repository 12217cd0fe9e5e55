"""POST /v1/chat/completions and GET /v1/models."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import (
    Call,
    RefusedError,
    bearer_key,
    is_rejected_key,
    read_body,
    tokens_usd,
)
from sandbox.http.controls import Controls, FaultKind, corrupt_answer
from sandbox.http.corpus_loader import Corpora
from sandbox.http.endpoint import BilledEndpoint, error_response
from sandbox.http.openai_format import chunks, completion, error_body, truncate, usage_of
from sandbox.http.streaming import Reply
from sandbox.model import ChatRequest, answer_request, phase_of
from sandbox.model.request import Answer

MODEL = "sandbox-reader"
MODEL_PREFIX = "sandbox-"
INVALID = "invalid_request_error"


def openai_routes(
    corpora: Corpora, controls: Controls, latency_seconds: float, pace_seconds: float = 0.0
) -> list[Route]:
    """The routes of chat completions and models."""
    chat = _Chat(corpora, controls)
    endpoint = BilledEndpoint(
        _parse_call, chat.respond, server_error, controls, latency_seconds, pace_seconds
    )
    return [
        Route("/v1/chat/completions", endpoint.__call__, methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
    ]


class _Chat:
    def __init__(self, corpora: Corpora, controls: Controls) -> None:
        self._corpora = corpora
        self._controls = controls

    async def respond(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        answer, usage = await answer_call(self._corpora, self._controls, call, faults)
        model = str(call.body["model"])
        if not call.body.get("stream"):
            body = completion(model, call.request_hash, answer, usage)
            return Reply((json.dumps(body, ensure_ascii=False).encode(),), usd=tokens_usd(usage))
        options = call.body.get("stream_options")
        includes_usage = isinstance(options, dict) and options.get("include_usage")
        parts = chunks(model, call.request_hash, answer, usage if includes_usage else None)
        return Reply(tuple(_events(parts)), "text/event-stream", tokens_usd(usage))


async def answer_call(
    corpora: Corpora, controls: Controls, call: Call, faults: frozenset[FaultKind]
) -> tuple[Answer, dict[str, int]]:
    """The scripted answer for this call if there is one, else the model's; and its usage.

    The body is in the format of chat completions. Raises RefusedError if the script is an error.
    """
    script = controls.next_script(call)
    request = ChatRequest(call.body)
    answer = script.answer() if script else answer_request(request)
    answer = corrupt_answer(answer, sorted(faults), request.offered_tools)
    answer = truncate(call.body.get("max_completion_tokens"), answer)
    return answer, usage_of(call.body["messages"], call.body.get("tools") or [], answer)


async def _parse_call(request: Request) -> Call:
    body = await checked_body(request)
    if body.get("n") not in (None, 1):
        raise RefusedError(
            400, error_body("The sandbox returns one choice: `n` must be 1.", INVALID, None, "n")
        )
    return chat_call(request, body, "messages")


async def checked_body(request: Request) -> dict[str, Any]:
    """The body of a request with a valid key and model. Raises RefusedError."""
    check_key(request)
    body = await read_body(request)
    if body is None:
        raise RefusedError(400, error_body("The body is not a JSON object.", INVALID, None))
    check_model(body.get("model"))
    return body


def chat_call(request: Request, body: Mapping[str, Any], field_name: str) -> Call:
    """Create the call of a body in chat completions' format; `field_name` is the interface's name of the messages."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        message = f"`{field_name}` must be a list of at least one message."
        raise RefusedError(400, error_body(message, INVALID, None, field_name))
    return Call("llm", request.url.path, body, phase_of(ChatRequest(body)))


def check_key(request: Request) -> None:
    """Raise RefusedError (401) if the key is rejected."""
    key = bearer_key(request)
    if is_rejected_key(key):
        masked_key = f"{key[:4]}***" if key else "none"
        message = f"Incorrect API key provided: {masked_key}. The sandbox accepts any key except `wrong` and `invalid…`."
        raise RefusedError(401, error_body(message, INVALID, "invalid_api_key"))


def check_model(model: object) -> None:
    """Raise RefusedError (400, 404) if the model is missing or unknown."""
    if not isinstance(model, str) or not model:
        raise RefusedError(
            400, error_body("You must provide a model parameter.", INVALID, None, "model")
        )
    if not model.startswith(MODEL_PREFIX):
        message = (
            f"The model `{model}` does not exist. This is the sandbox, and its model is `{MODEL}`."
        )
        raise RefusedError(404, error_body(message, INVALID, "model_not_found", "model"))


def _events(parts: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for part in parts:
        yield f"data: {json.dumps(part, ensure_ascii=False)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def server_error(message: str) -> Mapping[str, Any]:
    """A server error in OpenAI's format."""
    return error_body(message, "server_error", None)


async def _models(request: Request) -> Response:
    try:
        check_key(request)
    except RefusedError as error:
        return error_response(error)
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vigil-sandbox"}
    return JSONResponse({"object": "list", "data": [model]})
