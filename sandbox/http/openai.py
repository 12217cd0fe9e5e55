"""POST /v1/chat/completions and GET /v1/models."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError, bearer_key, is_rejected_key, read_body
from sandbox.http.endpoint import EVENT_STREAM, CallHandler, Endpoint, Reply, error_response
from sandbox.http.openai_format import chunks, completion, error_body
from sandbox.model import ChatRequest, phase_of

MODEL = "sandbox-reader"
MODEL_PREFIX = "sandbox-"
INVALID = "invalid_request_error"


def openai_routes(handler: CallHandler) -> list[Route]:
    """The routes of chat completions and models."""

    async def respond(call: Call) -> Reply:
        answer, usage = handler.complete(call)
        model = str(call.body["model"])
        if not call.body.get("stream"):
            body = completion(model, call.request_hash, answer, usage)
            return Reply((json.dumps(body, ensure_ascii=False).encode(),))
        options = call.body.get("stream_options")
        includes_usage = isinstance(options, dict) and options.get("include_usage")
        parts = chunks(model, call.request_hash, answer, usage if includes_usage else None)
        return Reply(tuple(_events(parts)), EVENT_STREAM)

    return [
        handler.route(Endpoint("/v1/chat/completions", _parse_call, respond, server_error)),
        Route("/v1/models", _models, methods=["GET"]),
    ]


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
