"""Probes a model server before anything is started: whether it answers, and which features it supports."""

import asyncio
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

from cli.client.reasons import reason
from cli.errors import BadInputError
from shared.runtime.providers import NO_KEY
from shared.runtime.settings import Settings
from shared.schemas.base import ResponseModel
from shared.urls import strip_secrets

OPENAI_URL: Final = "https://api.openai.com/v1"
REACH_SECONDS: Final = 10.0
"""For the list of models and the first one-token answer together."""
PROBE_SECONDS: Final = 120.0
"""For each probe; a slow server writes 3 tokens a second."""
PROBE_TOKENS: Final = 256
HIDDEN: Final = "***"
MAX_BYTES: Final = 4 * 1024**2
_MAX_RESPONSE_CHARS: Final = 300
_MODELS_NAMED: Final = 10

_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "tavilySearch",
        "description": "Searches the web.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to search for."}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city", "country"],
    "additionalProperties": False,
}


class UnreachableError(BadInputError):
    """The model server cannot be used; nothing was started."""


class Probe(ResponseModel):
    """Whether the server supports a feature, and what it answered."""

    works: bool
    detail: str


class Turns(ResponseModel):
    """Results of conversations with two turns of tool calls, through Vigil's own client."""

    conversations: dict[str, Probe]
    notes: list[str]
    """Adaptations of the client to this server."""


class Preflight(ResponseModel):
    """What the server can do, as tested before the trial."""

    models: list[str] | None
    """The models it lists; None if it has no list."""
    streaming: Probe
    tool_calls: Probe
    structured_output: Probe
    turns: Turns | None = None
    """None for the sandbox."""
    input_tokens: int
    output_tokens: int
    """As reported by the server."""
    seconds: float


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


@dataclass
class _Tokens:
    input: int = 0
    output: int = 0

    def add(self, answer: Any) -> None:
        usage = answer.get("usage") if isinstance(answer, dict) else None
        if not isinstance(usage, dict):
            return
        self.input += _count(usage.get("prompt_tokens"))
        self.output += _count(usage.get("completion_tokens"))


class _Connection:
    """The connection to the server during the preflight."""

    def __init__(self, server: Server, http: httpx.AsyncClient) -> None:
        self._server = server
        self._http = http
        self.model = server.model
        self.tokens = _Tokens()

    async def models(self) -> list[str] | None:
        """Raises UnreachableError if there is no answer, or the key is refused."""
        status, text = await self._send("GET", "/models")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._error("/models", status, text, _KEY_HINT)
        data = _field(_json(text), "data")
        if status != HTTPStatus.OK or not isinstance(data, list):
            return None
        return [str(entry["id"]) for entry in data if isinstance(entry, dict) and "id" in entry]

    def choose_model(self, listed: list[str] | None) -> None:
        """Chooses the only listed model if none was named. Raises UnreachableError."""
        if self.model is not None:
            return
        if listed is None or len(listed) != 1:
            names = f" it has {', '.join(listed[:_MODELS_NAMED])}" if listed else " it lists none"
            raise UnreachableError(
                f"name the model for {self._server.shown_url} with --model:{names}"
            )
        self.model = listed[0]

    async def first_token(self, listed: list[str] | None) -> None:
        """Raises UnreachableError if the server gives no usable answer."""
        body = self._chat("Say yes.", max_completion_tokens=1)
        status, text = await self._send("POST", "/chat/completions", body)
        if status == HTTPStatus.BAD_REQUEST and _is_about_length(text):
            return  # reasoning models refuse so low a limit
        if status != HTTPStatus.OK:
            raise self._error("/chat/completions", status, text, self._hint(status, listed))
        answer = _json(text)
        choices = _field(answer, "choices")
        if not isinstance(choices, list) or not choices:
            hint = (
                "This is not a chat completions response: check the URL, which usually ends in /v1"
            )
            raise self._error("/chat/completions", status, text, hint)
        self.tokens.add(answer)

    async def streaming(self) -> Probe:
        body = self._chat(
            "Count from one to five, in words.",
            stream=True,
            stream_options={"include_usage": True},
            max_completion_tokens=PROBE_TOKENS,
        )
        status, text = await self._send("POST", "/chat/completions", body)
        if status != HTTPStatus.OK:
            return Probe(works=False, detail=_describe_response(status, text))
        parts = [_json(line.removeprefix("data:")) for line in text.splitlines() if line[:1] == "d"]
        pieces = [part for part in parts if _field(part, "choices")]
        for part in parts:
            self.tokens.add(part)
        if not pieces:
            return Probe(works=False, detail=f"it sent the answer in one piece: {_clipped(text)}")
        return Probe(works=True, detail=f"in {len(pieces)} pieces")

    async def tool_calls(self) -> Probe:
        body = self._chat(
            "Use the tool tavilySearch to find the population of Ghana.",
            tools=[_TOOL],
            max_completion_tokens=PROBE_TOKENS,
        )
        status, text = await self._send("POST", "/chat/completions", body)
        answer = _json(text)
        if status != HTTPStatus.OK:
            return Probe(works=False, detail=_describe_response(status, text))
        self.tokens.add(answer)
        message = _message(answer)
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        if not isinstance(calls, list) or not calls:
            content = _clipped(str((message or {}).get("content") or text))
            return Probe(
                works=False, detail=f"it wrote text instead of calling the tool: {content}"
            )
        function = _field(calls[0], "function")
        arguments = _field(function, "arguments")
        values = _json(arguments) if isinstance(arguments, str) else arguments
        if _field(function, "name") != "tavilySearch" or not isinstance(
            _field(values, "query"), str
        ):
            return Probe(
                works=False, detail=f"the call does not match the schema: {_clipped(str(calls[0]))}"
            )
        return Probe(works=True, detail="it called the tool with valid arguments")

    async def structured_output(self) -> Probe:
        shape = {"name": "capital", "strict": True, "schema": _SCHEMA}
        body = self._chat(
            "Which city is the capital of Ghana?",
            response_format={"type": "json_schema", "json_schema": shape},
            max_completion_tokens=PROBE_TOKENS,
        )
        status, text = await self._send("POST", "/chat/completions", body)
        answer = _json(text)
        if status != HTTPStatus.OK:
            return Probe(works=False, detail=_describe_response(status, text))
        self.tokens.add(answer)
        content = str((_message(answer) or {}).get("content") or "")
        parsed = _json(content)
        if not isinstance(parsed, dict) or set(parsed) != {"city", "country"}:
            return Probe(
                works=False,
                detail=f"the answer does not match the JSON Schema: {_clipped(content)}",
            )
        return Probe(works=True, detail="the answer matches the JSON Schema")

    def _chat(self, user: str, **more: Any) -> dict[str, Any]:
        return {"model": self.model, "messages": [{"role": "user", "content": user}], **more}

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        """Status and text, cut at MAX_BYTES. Raises UnreachableError."""
        url = f"{self._server.url.rstrip('/')}{path}"
        headers = {"Authorization": f"Bearer {self._server.key or NO_KEY}"}
        try:
            async with self._http.stream(method, url, json=body, headers=headers) as answer:
                text = bytearray()
                async for piece in answer.aiter_bytes():
                    text += piece
                    if len(text) > MAX_BYTES:
                        break
                return answer.status_code, self._server.without_secrets(
                    text.decode("utf-8", "replace")
                )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = self._server.without_secrets(reason(error))
            raise UnreachableError(
                f"the model server at {self._server.shown_url} does not answer: {why}"
            ) from error

    def _hint(self, status: int, listed: list[str] | None) -> str:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return _KEY_HINT
        if status == HTTPStatus.NOT_FOUND and listed and self.model not in listed:
            return f"Name one of its models with --model: {', '.join(listed[:_MODELS_NAMED])}"
        if status == HTTPStatus.NOT_FOUND:
            return f"Check the URL, which usually ends in /v1, and the model name {self.model!r}"
        return "See the server's log"

    def _error(self, path: str, status: int, text: str, hint: str) -> UnreachableError:
        where = f"{self._server.shown_url.rstrip('/')}{path}"
        return UnreachableError(
            f"the model server at {where} {_describe_response(status, text)}. {hint}"
        )


_KEY_HINT: Final = "Check the key. To use another, name its environment variable with --key-env"


async def preflight(
    server: Server,
    *,
    reach_seconds: float = REACH_SECONDS,
    probe_seconds: float = PROBE_SECONDS,
) -> tuple[Preflight, str]:
    """Tests what the server can do; also returns the model's name. Raises UnreachableError within `reach_seconds`."""
    start = time.monotonic()
    async with httpx.AsyncClient(timeout=None) as http:
        connection = _Connection(server, http)
        try:
            async with asyncio.timeout(reach_seconds):
                listed = await connection.models()
                connection.choose_model(listed)
                await connection.first_token(listed)
        except TimeoutError as error:
            raise UnreachableError(
                f"the model server at {server.shown_url} did not answer within {reach_seconds:.0f} s. If it is "
                "still loading its model, try again, or wait longer with --wait"
            ) from error
        probes = [
            await _within(probe_seconds, probe)
            for probe in (connection.streaming, connection.tool_calls, connection.structured_output)
        ]
    assert connection.model is not None
    return Preflight(
        models=listed,
        streaming=probes[0],
        tool_calls=probes[1],
        structured_output=probes[2],
        input_tokens=connection.tokens.input,
        output_tokens=connection.tokens.output,
        seconds=round(time.monotonic() - start, 1),
    ), connection.model


async def _within(seconds: float, probe: Any) -> Probe:
    try:
        async with asyncio.timeout(seconds):
            answer: Probe = await probe()
            return answer
    except TimeoutError:
        return Probe(works=False, detail=f"no answer within {seconds:.0f} s")
    except UnreachableError as error:
        return Probe(works=False, detail=str(error))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _message(answer: Any) -> dict[str, Any] | None:
    choices = _field(answer, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = _field(first, "message")
    return message if isinstance(message, dict) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0


def _is_about_length(text: str) -> bool:
    return any(word in text for word in ("max_tokens", "max_completion_tokens", "output limit"))


def _describe_response(status: int, text: str) -> str:
    """The server's response in one line."""
    if re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        heading = f" titled {_clipped(title[1])!r}" if title else ""
        return f"answered {status} with a web page{heading}"
    error = _field(_json(text), "error")
    message = _field(error, "message") or (error if isinstance(error, str) else None)
    reason = _clipped(str(message or text)).rstrip(". ")
    return f"answered {status}: {reason or 'nothing'}"


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_RESPONSE_CHARS else f"{line[:_MAX_RESPONSE_CHARS]}…"
