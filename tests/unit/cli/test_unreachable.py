"""The message at startup when a model server or a search service does not answer."""

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli import provider_check
from cli.config.providers import Providers
from cli.provider_check import unreachable_providers
from cli.render.console import THEME, SafeConsole
from cli.render.operations import Activity, show_unreached
from shared.runtime.settings import Settings


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
