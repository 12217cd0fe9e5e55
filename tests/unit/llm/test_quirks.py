"""Every quirk of a model server, against the shipped client, over two turns of tools, streamed and whole."""

import re
from pathlib import Path

import pytest

from cli.trial.conformance import converse, request_of
from shared.errors import VigilError
from shared.llm.model_server import Stream
from tests.support.model_server import make_resumable_call, model_server, provider_for
from tests.support.providers.quirk_server import QuirkServer
from tests.support.providers.quirks import Quirk, quirks, with_table

STREAMS: tuple[Stream, ...] = ("auto", "never")


@pytest.fixture(autouse=True)
def no_quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable immediate retries."""
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)


def test_there_are_many_quirks_with_what_they_need() -> None:
    assert len(quirks()) >= 60
    for quirk in quirks():
        assert quirk.refuse or quirk.answer, quirk.name
        assert all((quirk.servers, quirk.does, quirk.expected)), quirk.name


def test_the_table_of_quirks_is_up_to_date() -> None:
    page = Path("docs/models.md").read_text("utf-8")
    assert with_table(page) == page, "run `make quirks`"


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("quirk", quirks(), ids=lambda quirk: quirk.name)
async def test_the_client_copes_with_the_quirk(quirk: Quirk, stream: Stream) -> None:
    expect = dict(quirk.expect)
    if stream not in expect.pop("streams", STREAMS):
        pytest.skip("the quirk is one of the other kind of answer")
    warnings: list[str] = []
    request = request_of(quirk.request, "m", expect.pop("options", None))
    async with (
        model_server(QuirkServer(quirk)) as stand_in,
        provider_for(stand_in, stream=stream, warnings=warnings) as provider,
    ):
        if "error" in expect:
            with pytest.raises(VigilError, match=expect.pop("error")) as error:
                await converse(provider, request, make_resumable_call())
            assert getattr(error.value, "counts", True), "it uses up an attempt, so it ends"
        else:
            conversation = await converse(provider, request, make_resumable_call())
            assert conversation.is_complete, conversation
            assert conversation.calls == (2 if request.tools else 0)
            assert conversation.answers[-1].cached_tokens == expect.pop("cached", 0)
            again = len(stand_in.requests)
            await converse(provider, request, make_resumable_call())
            assert len(stand_in.requests) - again <= len(conversation.answers) + expect.pop(
                "again", 0
            ), "what helped is remembered"
    warning = expect.pop("warning", None)
    if warning is not None:
        assert sum(bool(re.search(warning, each)) for each in warnings) == 1, warnings
    assert not expect, f"unknown expectations: {expect}"
