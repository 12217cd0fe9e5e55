"""Tests a model server before anything is started: whether it answers, and how Vigil's own client gets on with it."""

import asyncio
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import Field

from cli.client.reasons import reason
from cli.errors import BadInputError
from cli.trial.conformance import REQUESTS, Conversation, converse, request_of, unrecorded_call
from shared.errors import VigilError
from shared.llm.background_provider import BackgroundProvider
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider
from shared.runtime.providers import NO_KEY
from shared.runtime.settings import Settings
from shared.schemas.base import ResponseModel
from shared.urls import strip_secrets
from shared.wording import clip

OPENAI_URL: Final = "https://api.openai.com/v1"
REACH_SECONDS: Final = 10.0
"""For the list of models and the first one-token answer together."""
PROBE_SECONDS: Final = 120.0
"""For each conversation; a slow server writes 3 tokens a second."""
HIDDEN: Final = "***"
MAX_BYTES: Final = 4 * 1024**2
_MAX_RESPONSE_CHARS: Final = 300
_MODELS_NAMED: Final = 10
_USUAL_FIELDS: Final = frozenset({"role", "content", "tool_calls", "id", "type", "function"})
_CONVERSATIONS: Final[Sequence[tuple[str, str, Stream]]] = (
    (REQUESTS["tools"], "tools", "auto"),
    (f"{REQUESTS['tools']}, not streamed", "tools", "never"),
    (REQUESTS["forced"], "forced", "auto"),
    (REQUESTS["structured"], "structured", "auto"),
)
_KEY_HINT: Final = "Check the key. To use another, name its environment variable with --key-env"


class UnreachableError(BadInputError):
    """The model server cannot be used; nothing was started."""


class Probe(ResponseModel):
    """Whether the server copes with a conversation, and what it answered."""

    works: bool
    detail: str


class Preflight(ResponseModel):
    """Results of the tests of a model server before the trial. The sandbox is not tested."""

    models: list[str] | None = None
    """The models it lists; None if it has no list."""
    conversations: dict[str, Probe] = Field(default_factory=dict)
    """Conversations over two turns of tool calls and others, through Vigil's own client."""
    notes: list[str] = Field(default_factory=list)
    """Adaptations of the client to this server."""
    seconds: float = 0.0


MIN_SECRET_CHARS: Final = 6
"""In characters. Shorter ones occur in ordinary words, which would be hidden too."""


@dataclass(frozen=True)
class Server:
    """A model server and how to call it. `model` is None if the server's list decides."""

    url: str
    model: str | None
    key: str | None = field(repr=False, default=None)

    @property
    def shown_url(self) -> str:
        """The URL without credentials."""
        return strip_secrets(self.url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no report may contain: the key, and the parts of the URL that could be one."""
        parts = urlsplit(self.url)
        parameters = [self.key, parts.username, parts.password, parts.query]
        decoded = [unquote(text) for text in parameters if text]
        candidates = {
            text for text in (*parameters, *decoded) if text and len(text) >= MIN_SECRET_CHARS
        }
        return tuple(sorted(candidates, key=len, reverse=True))

    def without_secrets(self, text: str) -> str:
        """Some servers repeat the key that they refuse."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def chosen_server(
    settings: Settings, url: str | None, model: str | None, key_env: str | None
) -> Server | None:
    """The server named by --url, otherwise the configured one; None is the sandbox.

    A server named by --url only gets the key of --key-env. Raises BadInputError.
    """
    key = _key_named(key_env)
    configured = "model" in settings.model_fields_set
    if url is not None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise BadInputError(
                f"--url {url!r} is not the URL of a server: enter http://… or https://…"
            )
        return Server(url.rstrip("/"), model or (settings.first_model if configured else None), key)
    usual = settings.openai_api_key
    key = key or (usual.get_secret_value() if usual else None)
    if settings.openai_base_url is None and key is None:
        if model is not None:
            raise BadInputError(
                f"no server is configured for the model {model!r}: name one with --url, "
                "or set OPENAI_API_KEY"
            )
        return None
    return Server(
        (settings.openai_base_url or OPENAI_URL).rstrip("/"), model or settings.first_model, key
    )


def _key_named(key_env: str | None) -> str | None:
    if key_env is None:
        return None
    key = os.environ.get(key_env, "").strip()
    if not key:
        raise BadInputError(f"--key-env names {key_env}, which is not set in the environment")
    return key


async def preflight(
    server: Server,
    *,
    reach_seconds: float = REACH_SECONDS,
    probe_seconds: float = PROBE_SECONDS,
) -> tuple[Preflight, str]:
    """Tests what the server can do; also returns the model's name. Raises UnreachableError within `reach_seconds`."""
    start = time.monotonic()
    async with httpx.AsyncClient(timeout=None) as http:
        try:
            async with asyncio.timeout(reach_seconds):
                listed = await _list_models(http, server)
                model = server.model or _only_model(server, listed)
                await _check_chat(http, server, model, listed)
        except TimeoutError as error:
            raise UnreachableError(
                f"the model server at {server.shown_url} did not answer within {reach_seconds:.0f} s. If it is "
                "still loading its model, try again, or wait longer with --wait"
            ) from error
    probes, notes = await hold_conversations(server, model, probe_seconds)
    seconds = round(time.monotonic() - start, 1)
    return Preflight(models=listed, conversations=probes, notes=notes, seconds=seconds), model


async def hold_conversations(
    server: Server, model: str, seconds: float = PROBE_SECONDS
) -> tuple[dict[str, Probe], list[str]]:
    """Holds each conversation, for `seconds` at most. Also returns what the client adapted to the server."""
    notes: dict[str, None] = {}
    probes = {
        name: await _hold(server, model, kind, stream, seconds, notes)
        for name, kind, stream in _CONVERSATIONS
    }
    return probes, list(notes)


async def _list_models(http: httpx.AsyncClient, server: Server) -> list[str] | None:
    """None if the server has no list. Raises UnreachableError if it does not answer, or refuses the key."""
    status, text = await _send(http, server, "GET", "/models")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise _unusable(server, "/models", status, text, _KEY_HINT)
    data = _field(_json(text), "data")
    if status != HTTPStatus.OK or not isinstance(data, list):
        return None
    return [str(entry["id"]) for entry in data if isinstance(entry, dict) and "id" in entry]


def _only_model(server: Server, listed: list[str] | None) -> str:
    """The only listed model, as none was named. Raises UnreachableError."""
    if listed is None or len(listed) != 1:
        names = f" it has {', '.join(listed[:_MODELS_NAMED])}" if listed else " it lists none"
        raise UnreachableError(f"name the model for {server.shown_url} with --model:{names}")
    return listed[0]


async def _check_chat(
    http: httpx.AsyncClient, server: Server, model: str, listed: list[str] | None
) -> None:
    """Requests one token. Raises UnreachableError if the server gives no usable answer."""
    message = {"role": "user", "content": "Say yes."}
    body = {"model": model, "messages": [message], "max_completion_tokens": 1}
    status, text = await _send(http, server, "POST", "/chat/completions", body)
    limits = ("max_tokens", "max_completion_tokens", "output limit")
    if status == HTTPStatus.BAD_REQUEST and any(word in text for word in limits):
        return  # reasoning models refuse so low a limit
    choices = _field(_json(text), "choices")
    if status == HTTPStatus.OK and isinstance(choices, list) and choices:
        return
    hint = "See the server's log"
    if status == HTTPStatus.OK:
        hint = "This is not a chat completions response: check the URL, which usually ends in /v1"
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        hint = _KEY_HINT
    elif status == HTTPStatus.NOT_FOUND and listed and model not in listed:
        hint = f"Name one of its models with --model: {', '.join(listed[:_MODELS_NAMED])}"
    elif status == HTTPStatus.NOT_FOUND:
        hint = f"Check the URL, which usually ends in /v1, and the model name {model!r}"
    raise _unusable(server, "/chat/completions", status, text, hint)


async def _send(
    http: httpx.AsyncClient,
    server: Server,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
) -> tuple[int, str]:
    """Status and text, cut at MAX_BYTES. Raises UnreachableError."""
    headers = {"Authorization": f"Bearer {server.key or NO_KEY}"}
    try:
        async with http.stream(
            method, f"{server.url}{path}", json=body, headers=headers
        ) as response:
            text = bytearray()
            async for piece in response.aiter_bytes():
                text += piece
                if len(text) > MAX_BYTES:
                    break
            return response.status_code, server.without_secrets(text.decode("utf-8", "replace"))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = server.without_secrets(reason(error))
        raise UnreachableError(
            f"the model server at {server.shown_url} does not answer: {why}"
        ) from error


def _unusable(server: Server, path: str, status: int, text: str, hint: str) -> UnreachableError:
    where = f"{server.shown_url}{path}"
    return UnreachableError(
        f"the model server at {where} {_describe_response(status, text)}. {hint}"
    )


async def _hold(
    server: Server, model: str, kind: str, stream: Stream, seconds: float, notes: dict[str, None]
) -> Probe:
    """Holds a conversation through Vigil's own client, and adds to `notes` what the client adapted to."""
    warnings: list[str] = []
    connection = ModelServer(
        api_key=server.key or NO_KEY,
        base_url=server.url,
        limits=Limits(whole=seconds, first_token=seconds, total=seconds),
        stream=stream,
        warn=warnings.append,
    )
    try:
        async with asyncio.timeout(seconds):
            conversation = await converse(
                ChatProvider(connection, BackgroundProvider(connection)),
                request_of(kind, model),
                unrecorded_call(),
            )
    except TimeoutError:
        return Probe(works=False, detail=f"no answer within {seconds:.0f} s")
    except VigilError as error:
        return Probe(works=False, detail=server.without_secrets(str(error)))
    finally:
        await connection.close()
        notes |= dict.fromkeys(map(server.without_secrets, warnings))
    notes |= dict.fromkeys(_returned_fields(conversation))
    text = conversation.text[:200]
    if kind in ("tools", "forced") and conversation.calls < 2:
        turns = f"it called the tool {conversation.calls} times instead of twice"
        return Probe(works=False, detail=f"{turns}, and answered: {text}")
    if not conversation.is_complete:
        return Probe(works=False, detail=f"it did not find the word: {text}")
    return Probe(works=True, detail="the answer is right")


def _returned_fields(conversation: Conversation) -> list[str]:
    """The fields that the server gets back because it has sent them with its calls."""
    messages = [answer.message for answer in conversation.answers if answer.tool_calls]
    parts = [*messages, *(call for message in messages for call in message["tool_calls"])]
    names = sorted({name for part in parts for name in part} - _USUAL_FIELDS)
    return [f"What it sends with its calls is sent back: {', '.join(names)}"] if names else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _describe_response(status: int, text: str) -> str:
    """The server's response in one line."""
    if re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        heading = f" titled {clip(title[1], _MAX_RESPONSE_CHARS)!r}" if title else ""
        return f"answered {status} with a web page{heading}"
    error = _field(_json(text), "error")
    message = _field(error, "message") or (error if isinstance(error, str) else None)
    reason = clip(str(message or text), _MAX_RESPONSE_CHARS).rstrip(". ")
    return f"answered {status}: {reason or 'nothing'}"
