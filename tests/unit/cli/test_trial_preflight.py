"""What is asked of a model server before a trial, and what is said of those that cannot be used."""

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
    Server,
    UnreachableError,
    chosen_server,
    preflight,
)
from shared.runtime.settings import Settings
from tests.support.stand_in import Answer, Said, as_stream, completion, said, standing_in

KEY = "sk-this-is-the-key"
PAGE = b"<!doctype html><html><head><title>It works!</title></head></html>"


def usable(path: str, body: Mapping[str, Any]) -> Said:
    if path.endswith("/models"):
        return said({"data": [{"id": "m"}]})
    if body.get("stream"):
        return as_stream("one two three")
    if "tools" in body:
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "tavilySearch", "arguments": '{"query": "population of Ghana"}'},
        }
        return said(completion("", [call]))
    if "response_format" in body:
        return said(completion('{"city": "Accra", "country": "Ghana"}'))
    return said(completion("yes"))


def asked(answer: Answer, model: str | None = "m", **seconds: float) -> tuple[Preflight, str]:
    with standing_in(answer) as url:
        return asyncio.run(preflight(Server(url, model, KEY), **seconds))


def refused(answer: Answer, model: str | None = "m", **seconds: float) -> str:
    with pytest.raises(UnreachableError) as raised:
        asked(answer, model, **seconds)
    assert raised.value.exit_code == 2
    assert KEY not in str(raised.value)
    return str(raised.value)


def chat_says(reply: Said) -> Answer:
    return lambda path, body: usable(path, body) if path.endswith("/models") else reply


def test_a_server_that_can_do_everything() -> None:
    found, model = asked(usable)
    assert model == "m"
    assert found.models == ["m"]
    assert (found.streaming.works, found.tool_calls.works, found.structured_output.works) == (
        True,
        True,
        True,
    )
    assert (found.input_tokens, found.output_tokens) == (40, 20)


def test_a_server_that_can_do_nothing_but_talk_is_no_error() -> None:
    def talks(path: str, body: Mapping[str, Any]) -> Said:
        if path.endswith("/models"):
            return Said(404, b"no such page", "text/plain")
        if body.get("stream"):
            return said({"error": {"message": "stream is not supported"}}, 400)
        return said(completion("banana"))

    found, _ = asked(talks)
    assert found.models is None
    assert not found.streaming.works
    assert "stream is not supported" in found.streaming.detail
    assert "text instead of calling the tool: banana" in found.tool_calls.detail
    assert "does not fit: banana" in found.structured_output.detail


def test_arguments_as_an_object_are_a_tool_call_too() -> None:
    def answer(path: str, body: Mapping[str, Any]) -> Said:
        call = {"function": {"name": "tavilySearch", "arguments": {"query": "Ghana"}}}
        return said(completion("", [call])) if "tools" in body else usable(path, body)

    assert asked(answer)[0].tool_calls.works


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Said(200, PAGE, "text/html"), ["web page titled 'It works!'", "ends with /v1"]),
        (Said(200, b"[]"), ["answered 200: []"]),
        (Said(200, b"null"), ["no answer of chat completions"]),
        (Said(200, b""), ["answered 200: nothing"]),
        (said({"choices": []}), ["no answer of chat completions"]),
        (said({"error": "model exploded"}), ["model exploded"]),
        (said({"error": {"message": f"wrong key {KEY}"}}, 401), ["401", "***", "--key-env"]),
        (said({"detail": "no"}, 403), ["403", "--key-env"]),
        (said({"error": {"message": "no model x"}}, 404), ["no model x", "--model: m"]),
        (said({"error": {"message": "busy"}}, 503), ["503: busy", "server's own log"]),
        (Said(200, b"[" * 100_000), ["no answer of chat completions"]),
    ],
)
def test_what_a_useless_server_said_is_told_with_its_address(reply: Said, words: list[str]) -> None:
    told = refused(chat_says(reply), model="x")
    for word in (*words, "http://127.0.0.1:", "/v1/chat/completions"):
        assert word in told, told


def test_a_key_that_the_list_of_models_refuses() -> None:
    told = refused(lambda *_: said({"error": {"message": f"bad {KEY}"}}, 401))
    assert "/v1/models answered 401: bad ***" in told


def test_models_that_think_before_they_speak_refuse_one_token() -> None:
    def thinks(path: str, body: Mapping[str, Any]) -> Said:
        if body.get("max_completion_tokens") == 1:
            return said({"error": {"message": "max_tokens or model output limit was reached"}}, 400)
        return usable(path, body)

    assert asked(thinks)[0].tool_calls.works


@contextmanager
def silent(after: bytes) -> Iterator[str]:
    """A server that accepts, sends `after` a byte at a time, and never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                for place in range(len(after)):
                    connection.sendall(after[place : place + 1])
                over.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    "after", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
def test_a_silent_server_is_waited_for_no_longer_than_was_said(after: bytes) -> None:
    started = time.monotonic()
    with silent(after) as url, pytest.raises(UnreachableError) as raised:
        asyncio.run(preflight(Server(url, "m"), reach_seconds=0.3))
    assert time.monotonic() - started < 5
    assert url in str(raised.value)
    assert "no answer within" in str(raised.value)


def test_a_probe_that_is_not_answered_says_so() -> None:
    stop = threading.Event()

    def slow(path: str, body: Mapping[str, Any]) -> Said:
        if "tools" in body:
            stop.wait(10)
        return usable(path, body)

    with standing_in(slow) as url:
        found, _ = asyncio.run(preflight(Server(url, "m"), probe_seconds=0.3))
        stop.set()
    assert "no answer within" in found.tool_calls.detail
    assert found.structured_output.works


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{port}/v1 does not answer"):
        asyncio.run(preflight(Server(f"http://127.0.0.1:{port}/v1", "m")))


def test_the_only_model_is_taken_and_of_several_one_is_to_be_named() -> None:
    assert asked(usable, model=None)[1] == "m"
    two = said({"data": [{"id": "a"}, {"id": "b"}]})
    assert "--model: it has a, b" in refused(lambda *_: two, model=None)
    assert "--model: it lists none" in refused(lambda *_: said({}), model=None)


def test_which_server_is_tried_and_with_which_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "VIGIL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert chosen_server(Settings(), None, None, None) is None
    with pytest.raises(BadInputError, match="no server is configured"):
        chosen_server(Settings(), None, "m", None)
    named = chosen_server(Settings(), "http://host/v1/", None, None)
    assert named == Server("http://host/v1", None, None)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    usual = Settings()
    assert chosen_server(usual, None, None, None) == Server(OPENAI_URL, usual.model, KEY)
    elsewhere = chosen_server(usual, "http://host/v1", "m", None)
    assert elsewhere == Server("http://host/v1", "m", None)  # is not shown the key of another
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert chosen_server(usual, "http://host/v1", "m", "OTHER_KEY") == Server(
        "http://host/v1", "m", "sk-other"
    )
    with pytest.raises(BadInputError, match="NO_SUCH_KEY, which is not set"):
        chosen_server(usual, None, None, "NO_SUCH_KEY")
    with pytest.raises(BadInputError, match="is no URL"):
        chosen_server(usual, "host:80", None, None)


def test_a_password_in_a_url_is_never_shown() -> None:
    server = Server("http://my-user:pass%2Fword@host:1/v1?key=secret", "m", KEY)
    assert server.shown_url == "http://host:1/v1"
    assert KEY not in repr(server)
    told = f"{KEY} my-user pass%2Fword pass/word key=secret host"
    assert server.without_secrets(told) == "*** *** *** *** *** host"
    short = Server("http://me:us@host/v1", "m", "a")
    assert short.without_secrets("me, us and a") == "me, us and a"
