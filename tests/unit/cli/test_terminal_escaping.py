"""Untrusted text is shown in a terminal without its control characters."""

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import pytest
from rich.console import Console

from cli.render.agents import show_memories
from cli.render.console import THEME, SafeConsole, escape_control_chars, harmless_json, print_json
from cli.render.graph import show_edges, show_nodes
from cli.render.iterations import show_conclusions
from cli.render.notifications import show_inbox
from cli.render.provenance import show_retractions, show_sources
from shared.schemas.base import (
    CitationResponse,
    ConclusionResponse,
    EdgeResponse,
    InboxItemResponse,
    NodeResponse,
)
from shared.schemas.conversation import MemoryResponse
from shared.schemas.provenance import RetractionResponse, SourceResponse
from tests.support.injection.corpus import pages

CREATED_AT: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID: Final = uuid4()
HOSTILE: Final = "".join(page.title + page.text for page in pages() if page.name != "huge")
OWN_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
CONTROL_CHARS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)

NODE: Final = NodeResponse(
    id=ID,
    type=HOSTILE,
    name=HOSTILE,
    properties={"summary": HOSTILE},
    created_at=CREATED_AT,
    updated_at=CREATED_AT,
)
EDGE: Final = EdgeResponse(
    id=ID,
    type=HOSTILE,
    source_id=ID,
    source_name=HOSTILE,
    target_id=ID,
    target_name=HOSTILE,
    properties={},
    created_at=CREATED_AT,
    updated_at=CREATED_AT,
)
CONCLUSION: Final = ConclusionResponse(
    id=ID,
    word="BUY",
    name=HOSTILE,
    summary=HOSTILE,
    content=f"{HOSTILE} [node:{ID}]",
    confidence=1,
    generated_at="2026",
    iteration_id=None,
    citations=[CitationResponse(kind="node", id=ID, type="Country", name=HOSTILE)],
)
ITEM: Final = InboxItemResponse(
    id=ID,
    kind="notice",
    agent_id=ID,
    agent_name=HOSTILE,
    node_id=None,
    action=None,
    title=HOSTILE,
    summary=HOSTILE,
    content=HOSTILE,
    read_at=None,
    created_at=CREATED_AT,
)
MEMORY: Final = MemoryResponse(
    id=ID, kind="wish", content=HOSTILE, message_id=None, created_at=CREATED_AT, forgotten_at=None
)
SOURCE: Final = SourceResponse(
    id=ID,
    url=HOSTILE,
    title=HOSTILE,
    published=None,
    fetched_at=CREATED_AT,
    sha256="",
    retracted_at=CREATED_AT,
    retraction_reason=HOSTILE,
)
RETRACTION: Final = RetractionResponse(
    id=ID,
    url=HOSTILE,
    source_id=None,
    reason=HOSTILE,
    created_at=CREATED_AT,
    restored_at=None,
    is_pending=False,
    left=0,
    sources=1,
    analyses=1,
    advice=1,
)
RENDERERS: Final[dict[str, Callable[[Console], None]]] = {
    "nodes": lambda console: show_nodes(console, [NODE], limit=1),
    "edges": lambda console: show_edges(console, [EDGE], limit=1),
    "conclusions": lambda console: show_conclusions(console, [CONCLUSION], noun="advice", limit=1),
    "inbox": lambda console: show_inbox(console, [ITEM], everything=True),
    "memories": lambda console: show_memories(console, [MEMORY], forgotten=False),
    "sources": lambda console: show_sources(console, [SOURCE], limit=1),
    "retractions": lambda console: show_retractions(console, [RETRACTION]),
}


def test_the_corpus_contains_control_characters() -> None:
    assert "\x1b" in HOSTILE
    assert "\x9b" in HOSTILE
    assert "\u202e" in HOSTILE


@pytest.mark.parametrize("name", RENDERERS)
def test_rendered_output_contains_no_control_characters(name: str) -> None:
    file = io.StringIO()
    RENDERERS[name](SafeConsole(file=file, theme=THEME, width=200, force_terminal=True))
    output = OWN_STYLE.sub("", file.getvalue())
    assert "Halden" in output or "owned" in output
    assert CONTROL_CHARS.findall(output) == []


def test_json_output_keeps_the_text_and_contains_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json(CONCLUSION)
    output = capsys.readouterr().out
    assert CONTROL_CHARS.findall(output) == []
    value: Any = json.loads(output)
    assert value["summary"] == HOSTILE


def test_harmless_text_is_unchanged() -> None:
    text = "Two lines\n\tand a tab: Lomé, 日本, नमस्ते, 👩\u200d🔬."
    assert escape_control_chars(text) == text
    assert json.loads(harmless_json(json.dumps(text, ensure_ascii=False))) == text
