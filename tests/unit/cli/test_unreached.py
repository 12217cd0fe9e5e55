"""What a start says about a model server or a search service that does not answer."""

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from cli import doctor
from cli.config.providers import Outside
from cli.doctor import unreachable_providers
from cli.render.console import THEME
from cli.render.operations import Activity, show_unreached
from shared.runtime.settings import Settings


@contextmanager
def silent_server() -> Iterator[str]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def told(settings: Settings) -> str:
    written = io.StringIO()
    found = unreachable_providers(settings, Outside.from_settings(settings, None))
    show_unreached(Console(file=written, width=300, theme=THEME), found)
    return written.getvalue()


def test_a_model_server_that_is_away_is_named_with_its_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = closed_port()
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    said = told(Settings())
    assert f"The model server at {url} does not answer: " in said
    assert "Connection refused" in said
    assert "OPENAI_BASE_URL" in said
    assert "wait" in said


def test_silence_is_told_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "START_REQUEST_SECONDS", 0.2)
    began = time.monotonic()
    with silent_server() as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("TAVILY_API_KEY", "tvly")
        monkeypatch.setenv("TAVILY_BASE_URL", url)
        said = told(Settings())
    assert said.count(f"at {url} does not answer") == 2
    assert "TAVILY_BASE_URL" in said
    assert time.monotonic() - began < doctor.START_SECONDS
    assert doctor.START_SECONDS < 10


def test_the_sandbox_is_not_asked() -> None:
    assert told(Settings()) == ""


def test_what_takes_long_is_told_without_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("cli.render.operations.time.monotonic", lambda: clock[0])
    written = io.StringIO()
    with Activity(Console(file=written, width=200, theme=THEME)) as activity:
        for seconds in (0, 5, 11, 20, 42):
            clock[0] = seconds
            activity.say(f"waits since {seconds}")
    assert written.getvalue().split("\n") == ["  waits since 11 …", "  waits since 42 …", ""]
