"""POST /v1/chat/completions and GET /v1/models."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.call import Call, RefusedError, bearer_key, key_is_refused, read_body
from sandbox.http.endpoint import BilledEndpoint, Levers
from sandbox.http.faults import FaultKind
from sandbox.http.openai_shapes import chunks, completion, error_body, usage_of, within
from sandbox.http.prices import tokens_usd
from sandbox.http.reply import Reply
from sandbox.http.shelf import CorpusShelf
from sandbox.http.spoil import spoiled
from sandbox.reader import ChatRequest, Phase, phase_of, read
from sandbox.reader.answer import Answer
from sandbox.reader.configure.foreseen import searching

MODEL = "sandbox-reader"
MODEL_PREFIX = "sandbox-"
INVALID = "invalid_request_error"


def openai_routes(
    shelf: CorpusShelf, levers: Levers, latency_seconds: float, pace_seconds: float = 0.0
) -> list[Route]:
    """OpenAI's part of the server."""
    chat = _Chat(shelf, levers)
    endpoint = BilledEndpoint(
        _read_call, chat.respond, server_error, levers, latency_seconds, pace_seconds
    )
    return [
        Route("/v1/chat/completions", endpoint.__call__, methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/v1/models/{model}", _model, methods=["GET"]),
    ]


class _Chat:
    def __init__(self, shelf: CorpusShelf, levers: Levers) -> None:
        self._shelf = shelf
        self._levers = levers

    async def respond(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        answer, usage = await answered(self._shelf, self._levers, call, faults)
        model = str(call.body["model"])
        if not call.body.get("stream"):
            whole = completion(model, call.request_hash, answer, usage)
            return Reply((json.dumps(whole, ensure_ascii=False).encode(),), usd=tokens_usd(usage))
        options = call.body.get("stream_options")
        counted = isinstance(options, dict) and options.get("include_usage")
        parts = chunks(model, call.request_hash, answer, usage if counted else None)
        return Reply(tuple(_events(parts)), "text/event-stream", tokens_usd(usage))


async def answered(
    shelf: CorpusShelf, levers: Levers, call: Call, faults: frozenset[FaultKind]
) -> tuple[Answer, dict[str, int]]:
    """A scripted answer where one waits for this call, else what the reader reads; and its usage.

    The call's body is in the shape of chat completions. Raises RefusedError where the script is for an error.
    """
    script = levers.scripts.take(call)
    request = ChatRequest(call.body)
    answer = script.answer() if script else await _read(shelf, request)
    answer = spoiled(answer, sorted(faults), request.offered)
    answer = within(call.body.get("max_completion_tokens"), answer)
    return answer, usage_of(call.body["messages"], call.body.get("tools") or [], answer)


async def _read(shelf: CorpusShelf, request: ChatRequest) -> Answer:
    if phase_of(request) is Phase.CONFIGURATION:
        return read(request, searching(await shelf.index()))
    return read(request)


async def _read_call(request: Request) -> Call:
    body = await checked_body(request)
    if body.get("n") not in (None, 1):
        raise RefusedError(
            400, error_body("The sandbox gives one choice: `n` must be 1.", INVALID, None, "n")
        )
    return chat_call(request, body, "messages")


async def checked_body(request: Request) -> dict[str, Any]:
    """What was sent, with a key and for a model that will do; RefusedError otherwise."""
    check_key(request)
    body = await read_body(request)
    if body is None:
        raise RefusedError(400, error_body("The body is not a JSON object.", INVALID, None))
    check_model(body.get("model"))
    return body


def chat_call(request: Request, body: Mapping[str, Any], named: str) -> Call:
    """The call of a body in the shape of chat completions; `named` is what the client calls its messages."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        said = f"`{named}` must be a list of at least one message."
        raise RefusedError(400, error_body(said, INVALID, None, named))
    return Call("llm", request.url.path, body, phase_of(ChatRequest(body)))


def check_key(request: Request) -> None:
    """Raises RefusedError (401)."""
    key = bearer_key(request)
    if key_is_refused(key):
        shown = f"{key[:4]}***" if key else "none"
        message = f"Incorrect API key provided: {shown}. The sandbox takes any key but `wrong` and `invalid…`."
        raise RefusedError(401, error_body(message, INVALID, "invalid_api_key"))


def check_model(model: object) -> None:
    """Raises RefusedError (400, 404)."""
    if not isinstance(model, str) or not model:
        raise RefusedError(
            400, error_body("You must provide a model parameter.", INVALID, None, "model")
        )
    if not model.startswith(MODEL_PREFIX):
        message = (
            f"The model `{model}` does not exist here: this is a sandbox. Its model is `{MODEL}`."
        )
        raise RefusedError(404, error_body(message, INVALID, "model_not_found", "model"))


def _events(parts: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for part in parts:
        yield f"data: {json.dumps(part, ensure_ascii=False)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def server_error(message: str) -> Mapping[str, Any]:
    """As OpenAI words an error of its own."""
    return error_body(message, "server_error", None)


async def _models(request: Request) -> Response:
    return _checked(request, {"object": "list", "data": [_described(MODEL)]})


async def _model(request: Request) -> Response:
    model = request.path_params["model"]
    try:
        check_model(model)
    except RefusedError as error:
        return JSONResponse(dict(error.body), error.status)
    return _checked(request, _described(model))


def _checked(request: Request, body: dict[str, Any]) -> Response:
    try:
        check_key(request)
    except RefusedError as error:
        return JSONResponse(dict(error.body), error.status)
    return JSONResponse(body)


def _described(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 0, "owned_by": "vigil-sandbox"}
