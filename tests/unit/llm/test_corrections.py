"""Which refused calls a model corrects, and which calls wait for these."""

import json
from typing import Any

from shared.llm.corrections import Correction
from shared.llm.messages import ToolCall
from shared.llm.toolset import ToolUse
from shared.tools import Json


def _use(key: str, tool: str = "addGraphNode", **arguments: Any) -> ToolUse:
    return ToolUse(None, None, key=key, call=ToolCall(key, tool, json.dumps(arguments)))


REFUSED: Json = {"error": "properties.summary is required"}
FINAL: Json = {"error": "no cited sentence names it", "final": True}
WAITS: Json = {"error": "its node was refused", "final": True, "awaits": "Tema port"}
PORT, LAKE = _use("1", name="Tema  port"), _use("2", name="Volta")
EDGE = _use("3", "addGraphEdge", sourceId="Tema port", targetId="Ghana")


def test_only_what_is_not_left_out_is_corrected() -> None:
    results = {"1": REFUSED, "2": FINAL, "3": WAITS}
    found = Correction.of([PORT, LAKE, EDGE], results, includes_final=False)
    assert found is not None
    assert (found.refused, found.waiting) == ([PORT], [EDGE])
    assert found.tools == {"addGraphNode"}
    message = found.message([REFUSED], "<document>\n…\n</document>")
    assert "→ properties.summary is required" in message
    assert "Volta" not in message
    assert "Ghana" not in message


def test_nothing_is_corrected_if_all_is_left_out_or_made() -> None:
    made: Json = {"nodeId": "x"}
    waits: Json = {**WAITS, "awaits": "Volta"}
    results = {"1": made, "2": FINAL, "3": waits}
    assert Correction.of([PORT, LAKE, EDGE], results, includes_final=False) is None
    found = Correction.of([PORT, LAKE, EDGE], results, includes_final=True)
    assert found is not None
    assert (found.refused, found.waiting) == ([LAKE], [EDGE])


def test_waiting_calls_follow_the_corrected_node_by_its_name_or_its_place() -> None:
    correction = Correction([PORT], [EDGE])
    same = ("addGraphEdge", {"sourceId": "Tema port", "targetId": "Ghana"})
    assert correction.repeated([_use("4", name="Tema port"), _use("5", "finish")]) == [same]
    other = ("addGraphEdge", {"sourceId": "Port of Tema", "targetId": "Ghana"})
    assert correction.repeated([_use("4", name="Port of Tema")]) == [other]
    assert correction.repeated([_use("5", "finish")]) == []
    both = Correction([PORT, LAKE], [EDGE])
    assert both.repeated([_use("4", name="Port of Tema")]) == [], "which one it is is not known"
    assert both.repeated([_use("4", name="Tema port")]) == [same]
