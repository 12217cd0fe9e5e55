"""Numbers of sentences in calls, which a model may write as decimal numbers: 1.10 is sentence 10 of page 1, not 1."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from shared.graph.tools.write_tools import AddGraphNode, EvidenceArgument
from shared.llm.answers import read_call
from shared.llm.messages import ChatAnswer, assistant_message
from shared.llm.repair import Repairs
from shared.llm.tool_calls import normalize_tool_calls, parse_arguments
from shared.server_json import read_json
from shared.tools import StateTool, ToolRefusalError

NODE = '"type": "Maker", "name": "Norvolt", "properties": {"summary": "s", "price": 1.10}'


async def _run(*_: Any) -> dict[str, Any]:
    return {}


TOOL = StateTool("addGraphNode", "Adds.", AddGraphNode, _run)


def _cited(answer: ChatAnswer) -> list[EvidenceArgument]:
    [call] = normalize_tool_calls(answer, [TOOL.name]).tool_calls
    arguments = parse_arguments(TOOL, call.arguments, Repairs())
    assert isinstance(arguments, AddGraphNode)
    assert type(arguments.properties.get("price", 1.1)) is float
    return arguments.all_evidence


def _sent(function: str) -> ChatAnswer:
    """An answer whose server sent `function` as the call."""
    call = read_call(read_json(function))
    return ChatAnswer(assistant_message(None, [call]), "tool_calls")


def _as_text(arguments: str) -> str:
    return json.dumps({"name": TOOL.name, "arguments": arguments})


TENTH = [EvidenceArgument(page=1, sentences=[10])]


@pytest.mark.parametrize(
    "arguments",
    [
        f'{{{NODE}, "sentences": [1.10]}}',
        f'{{{NODE}, "sentences": 1.10}}',
        f'{{{NODE}, "sentences": "[1.10]"}}',
        f'{{{NODE}, "sentences": ["1.10"]}}',
        f'```json\n{{{NODE}, "sentences": [1.10]}}\n```',
        f'{{{NODE}, "sentences": [1.10]',
        f'{{{NODE}, "evidence": [{{"page": 1, "sentences": [1.10]}}]}}',
        f'{{{NODE}, "evidence": [{{"page": 1, "sentences": ["1.10"]}}]}}',
        f'{{{NODE}, "evidence": [{{"sentences": [1.10]}}]}}',
        f'{{{NODE}, "evidence": [{{"page": 1, "sentences": [10]}}]}}',
    ],
)
def test_a_sentence_is_read_from_the_text_of_its_number(arguments: str) -> None:
    assert _cited(_sent(_as_text(arguments))) == TENTH


@pytest.mark.parametrize(
    "text",
    [
        f'{{"name": "addGraphNode", "arguments": {{{NODE}, "sentences": [1.10]}}}}',
        f'<tool_call>{{"name": "addGraphNode", "arguments": {{{NODE}, "sentences": [1.10]}}}}</tool_call>',
        f"<function=addGraphNode>{{{NODE}, 'sentences': [1.10]}}</function>".replace("'", '"'),
        'addGraphNode(type="Maker", name="Norvolt", properties={"summary": "s"}, sentences=[1.10])',
        "<function=addGraphNode><parameter=type>Maker</parameter><parameter=name>Norvolt</parameter>"
        "<parameter=properties>{}</parameter><parameter=sentences>[1.10]</parameter></function>",
    ],
)
def test_a_call_that_is_written_as_text_keeps_its_numbers(text: str) -> None:
    assert _cited(ChatAnswer(assistant_message(text, []), "stop")) == TENTH


@pytest.mark.parametrize(
    "answer",
    [
        # The server has parsed the number, so its text is lost.
        _sent(f'{{"name": "addGraphNode", "arguments": {{{NODE}, "sentences": [1.10]}}}}'),
        _sent(f'{{"name": "addGraphNode", "arguments": {{{NODE}, "sentences": [1.1]}}}}'),
        # Broken JSON with both texts of the number.
        _sent(_as_text(f'{{{NODE}, "sentences": [1.1, 1.10]')),
        _sent(
            f'{{"name": "addGraphNode", "arguments": {{{NODE}, "evidence": [{{"page": 1, "sentences": [1.10]}}]}}}}'
        ),
        _sent(_as_text(f'{{{NODE}, "evidence": [{{"page": 2, "sentences": [1.10]}}]}}')),
    ],
)
def test_a_number_that_may_be_two_sentences_is_refused(answer: ChatAnswer) -> None:
    with pytest.raises((ToolRefusalError, ValidationError), match="is not a sentence"):
        _cited(answer)
