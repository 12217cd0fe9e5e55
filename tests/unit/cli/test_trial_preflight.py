"""Preflight requests to a model server before a trial, and the errors for unusable servers."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from cli.errors import BadInputError
from cli.trial.preflight import (
    OPENAI_URL,
    Preflight,
    Probe,
    Server,
    UnreachableError,
    chosen_server,
    hold_conversations,
    preflight,
)
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases
from tests.support.model_server import model_server
from tests.support.providers.quirk_server import QuirkServer
from tests.support.providers.quirks import Quirk, quirks
from tests.support.scripted_server import (
    Answer,
    Reply,
    as_stream,
    completion,
    json_reply,
    serve_model,
)

CASES = read_cases(__file__)

KEY = "sk-this-is-the-key"
PAGE = b"<!doctype html><html><head><title>It works!</title></head></html>"


def usable_server(path: str, body: Mapping[str, Any]) -> Reply:
    if path.endswith("/models"):
        return json_reply({"data": [{"id": "m"}]})
    return as_stream("kestrel") if body.get("stream") else json_reply(completion("kestrel"))


def run_preflight(
    answer: Answer, model: str | None = "m", **seconds: float
) -> tuple[Preflight, str]:
    with serve_model(answer) as url:
        return asyncio.run(preflight(Server(url, model, KEY), **seconds))


def preflight_error(answer: Answer, model: str | None = "m", **seconds: float) -> str:
    with pytest.raises(UnreachableError) as raised:
        run_preflight(answer, model, **seconds)
    assert raised.value.exit_code == 2
    assert KEY not in str(raised.value)
    return str(raised.value)


def reply_to_chat(reply: Reply) -> Answer:
    return lambda path, body: usable_server(path, body) if path.endswith("/models") else reply


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, PAGE, "text/html"), ["web page titled 'It works!'", "usually ends in /v1"]),
        (Reply(200, b"[]"), ["answered 200: []"]),
        (Reply(200, b"null"), ["not a chat completions response"]),
        (Reply(200, b""), ["answered 200: nothing"]),
        (json_reply({"choices": []}), ["not a chat completions response"]),
        (json_reply({"error": "model exploded"}), ["model exploded"]),
        (json_reply({"error": {"message": f"wrong key {KEY}"}}, 401), ["401", "***", "--key-env"]),
        (json_reply({"detail": "no"}, 403), ["403", "--key-env"]),
        (json_reply({"error": {"message": "no model x"}}, 404), ["no model x", "--model: m"]),
        (json_reply({"error": {"message": "busy"}}, 503), ["503: busy", "See the server's log"]),
        (Reply(200, b"[" * 100_000), ["not a chat completions response"]),
    ],
)
def test_the_error_contains_the_server_reply_and_its_address(
    reply: Reply, words: list[str]
) -> None:
    error = preflight_error(reply_to_chat(reply), model="x")
    for word in (*words, "http://127.0.0.1:", "/v1/chat/completions"):
        assert word in error, error


def test_a_key_rejected_by_the_model_list_is_redacted() -> None:
    error = preflight_error(lambda *_: json_reply({"error": {"message": f"bad {KEY}"}}, 401))
    assert "/v1/models answered 401: bad ***" in error


def test_a_reasoning_model_may_reject_a_limit_of_one_token() -> None:
    def answer(path: str, body: Mapping[str, Any]) -> Reply:
        if body.get("max_completion_tokens") == 1:
            return json_reply(
                {"error": {"message": "max_tokens or model output limit was reached"}}, 400
            )
        return usable_server(path, body)

    assert run_preflight(answer)[0].conversations["A structured answer"].works


@contextmanager
def silent_server(after: bytes) -> Iterator[str]:
    """A server that accepts, sends `after` a byte at a time, and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for index in range(len(after)):
                    connection.sendall(after[index : index + 1])
                stop.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    "after", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
def test_the_wait_for_a_silent_server_respects_the_timeout(after: bytes) -> None:
    started = time.monotonic()
    with silent_server(after) as url, pytest.raises(UnreachableError) as raised:
        asyncio.run(preflight(Server(url, "m"), reach_seconds=0.3))
    assert time.monotonic() - started < 5
    assert url in str(raised.value)
    assert "did not answer within" in str(raised.value)


def test_an_unanswered_conversation_is_reported() -> None:
    stop = threading.Event()

    def slow(path: str, body: Mapping[str, Any]) -> Reply:
        if "tools" in body:
            stop.wait(10)
        return usable_server(path, body)

    with serve_model(slow) as url:
        result, model = asyncio.run(preflight(Server(url, "m"), probe_seconds=0.5))
        stop.set()
    assert (result.models, model) == (["m"], "m")
    assert "no answer within" in result.conversations["Two turns of tools"].detail
    assert result.conversations["A structured answer"].works


def test_a_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{port}/v1 does not answer"):
        asyncio.run(preflight(Server(f"http://127.0.0.1:{port}/v1", "m")))


def test_a_single_model_is_chosen_and_several_require_the_option() -> None:
    assert run_preflight(usable_server, model=None)[1] == "m"
    two = json_reply({"data": [{"id": "a"}, {"id": "b"}]})
    assert "--model: it has a, b" in preflight_error(lambda *_: two, model=None)
    assert "--model: it lists none" in preflight_error(lambda *_: json_reply({}), model=None)


def test_server_and_key_come_from_the_settings_or_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "VIGIL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert chosen_server(Settings(), None, None, None) is None
    with pytest.raises(BadInputError, match="no server is configured"):
        chosen_server(Settings(), None, "m", None)
    server = chosen_server(Settings(), "http://host/v1/", None, None)
    assert server == Server("http://host/v1", None, None)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings()
    assert chosen_server(settings, None, None, None) == Server(OPENAI_URL, settings.model, KEY)
    other_server = chosen_server(settings, "http://host/v1", "m", None)
    assert other_server == Server("http://host/v1", "m", None)  # does not get another server's key
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert chosen_server(settings, "http://host/v1", "m", "OTHER_KEY") == Server(
        "http://host/v1", "m", "sk-other"
    )
    with pytest.raises(BadInputError, match="NO_SUCH_KEY, which is not set"):
        chosen_server(settings, None, None, "NO_SUCH_KEY")
    with pytest.raises(BadInputError, match="is not the URL of a server"):
        chosen_server(settings, "host:80", None, None)


def test_a_password_in_a_url_is_never_shown() -> None:
    server = Server("http://my-user:pass%2Fword@host:1/v1?key=secret", "m", KEY)
    assert server.shown_url == "http://host:1/v1"
    assert KEY not in repr(server)
    text = f"{KEY} my-user pass%2Fword pass/word key=secret host"
    assert server.without_secrets(text) == "*** *** *** *** *** host"
    short = Server("http://me:us@host/v1", "m", "a")
    assert short.without_secrets("me, us and a") == "me, us and a"


BY_NAME = {quirk.name: quirk for quirk in quirks()}


async def conversations_with(quirk: Quirk) -> tuple[dict[str, Probe], list[str]]:
    async with model_server(QuirkServer(quirk)) as stand_in:
        return await hold_conversations(Server(stand_in.url, "m", "sk-the-key"), "m")


@pytest.mark.parametrize(("name", "note"), CASES["what_a_server_needs_is_named"])
async def test_what_a_server_needs_is_named(name: str, note: str) -> None:
    probes, notes = await conversations_with(BY_NAME[name])
    assert [probe for probe in probes.values() if not probe.works] == []
    assert [each for each in notes if note in each], notes


async def test_a_server_that_refuses_the_second_turn_is_found_out() -> None:
    refusal = {"error": {"message": "no second turn for sk-the-key"}}
    rule = {"when": [{"path": "callers.role", "equals": "assistant"}], "body": refusal}
    probes, _ = await conversations_with(Quirk("q", "s", "d", "e", refuse=[rule]))
    works = {name: probe.works for name, probe in probes.items()}
    assert list(works.values()) == [False, False, False, True]
    [detail] = {probe.detail for probe in probes.values() if not probe.works}
    assert "no second turn for ***" in detail


async def test_a_server_that_calls_no_tool_is_found_out() -> None:
    quirk = Quirk("q", "s", "d", "e", answer={"written": "I do not know."})
    probes, _ = await conversations_with(quirk)
    assert not probes["Two turns of tools"].works
