"""What `vigil try-model` finds out about a server in conversations over two turns of tools."""

import pytest

from cli.trial.preflight import Server, Turns
from cli.trial.turns import try_turns
from shared.llm.conformance import Quirk, quirks
from tests.support.model_server import model_server
from tests.support.providers.quirk_server import QuirkServer

BY_NAME = {quirk.name: quirk for quirk in quirks()}


async def turns_with(quirk: Quirk) -> Turns:
    async with model_server(QuirkServer(quirk)) as stand_in:
        return await try_turns(Server(stand_in.url, "m", "sk-the-key"), "m", 60.0)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("reasoning_content_back", "is sent back: reasoning_content"),
        ("thought_signature_back", "is sent back: extra_content"),
        ("effort_none_with_tools", "'reasoning_effort' is sent as 'none' with tools"),
        ("tool_choice_ignored", "'tool_choice' is omitted"),
        ("json_schema_unsupported", "'response_format' is sent as 'json_object'"),
        ("written_qwen_xml", "--tool-call-parser"),
    ],
)
async def test_what_a_server_needs_is_named(name: str, note: str) -> None:
    turns = await turns_with(BY_NAME[name])
    assert [probe for probe in turns.conversations.values() if not probe.works] == []
    assert [each for each in turns.notes if note in each], turns.notes


async def test_a_server_that_refuses_the_second_turn_is_found_out() -> None:
    refusal = {"error": {"message": "no second turn for sk-the-key"}}
    rule = {"when": [{"path": "callers.role", "equals": "assistant"}], "body": refusal}
    turns = await turns_with(Quirk("q", "s", "d", "e", refuse=[rule]))
    works = {name: probe.works for name, probe in turns.conversations.items()}
    assert list(works.values()) == [False, False, False, True]
    [detail] = {probe.detail for probe in turns.conversations.values() if not probe.works}
    assert "no second turn for ***" in detail


async def test_a_server_that_calls_no_tool_is_found_out() -> None:
    quirk = Quirk("q", "s", "d", "e", answer={"written": "I do not know."})
    turns = await turns_with(quirk)
    assert not turns.conversations["Two turns of tools"].works
