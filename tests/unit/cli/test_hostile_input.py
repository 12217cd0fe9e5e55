"""Hostile input of commands, and how output is escaped and formatted."""

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from cli.app import LazyCommands, build_app, load_command
from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.render.agents import show_memories
from cli.render.console import (
    THEME,
    SafeConsole,
    escape_control_chars,
    harmless_json,
    print_json,
    with_short_citations,
)
from cli.render.graph import show_edges, show_nodes
from cli.render.iterations import show_conclusions
from cli.render.notifications import show_inbox
from cli.render.provenance import show_retractions, show_sources
from shared.durations import format_duration
from shared.errors import VigilError
from shared.schemas.base import (
    CitationResponse,
    ConclusionResponse,
    EdgeResponse,
    InboxItemResponse,
    NodeResponse,
)
from shared.schemas.conversation import MemoryResponse
from shared.schemas.provenance import RetractionResponse, SourceResponse
from tests.support.attack_mode import in_full
from tests.support.hostile import STRINGS
from tests.support.injection.corpus import pages

EXCLUDED: Final = {
    ("up",): "starts an installation",
    ("demo",): "starts an installation",
    ("try-model",): "starts an installation",
    ("migrate",): "waits for engines",
    ("keys",): "writes files",
    ("top",): "never ends",
}
PATH_PARAMETERS: Final = {"data", "output", "file", "keep"}
COMMON_PARAMETERS: Final = {"url", "profile", "token"}
"""Options of every command; they are tested with one command."""
MAX_CALLS: Final = 150
MAX_CALLS_IN_FULL: Final = 1_500
"""All 13,000 take 20 minutes; each seed draws others."""
VALUES: Final = [text for text in STRINGS if "\x00" not in text]
"""No argument of a process can hold NUL."""

Call = tuple[tuple[str, ...], Any, Any, str]
"""The path of a command, its Typer object, one of its parameters, and the value for it."""


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        is_lazy = isinstance(command, LazyCommands)
        for name, subcommand in command.commands.items():
            loaded = load_command(name) if is_lazy else subcommand
            yield from commands(loaded, (*path, name))
    else:
        yield path, command


def calls(app: Any) -> Iterator[Call]:
    for path, command in commands(app, ()):
        for parameter in command.params:
            is_tested = parameter.name not in PATH_PARAMETERS and (
                parameter.name not in COMMON_PARAMETERS or path == ("agent", "list")
            )
            if path not in EXCLUDED and is_tested and not getattr(parameter, "is_flag", False):
                yield from ((path, command, parameter, value) for value in VALUES)


def arguments(call: Call) -> list[str]:
    """Return the command line, with `x` for the other required parameters."""
    path, command, hostile, value = call
    options, positional = [], []
    for parameter in command.params:
        argument = value if parameter is hostile else "x" if parameter.required else None
        if argument is None:
            continue
        if parameter.param_type_name == "argument":
            positional.append(argument)
        else:
            name = max(parameter.opts, key=len)
            options.append(f"{name}={argument}")
    return [*path, *options, "--", *positional]


def test_no_argument_causes_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "VIGIL_URL": "http://127.0.0.1:9",
        "VIGIL_DATA": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    program = build_app()
    app = typer.main.get_command(program)
    all_calls = list(calls(app))
    assert len(all_calls) > 10 * MAX_CALLS
    count = MAX_CALLS_IN_FULL if in_full() else MAX_CALLS
    sample = random.Random(seed).sample(all_calls, count)
    runner = CliRunner()
    failures = []
    for call in sample:
        result = runner.invoke(program, arguments(call), input="")
        error = result.exception
        # `main` turns these into messages; see the test below.
        if error is not None and not isinstance(
            error, SystemExit | VigilError | UnicodeEncodeError
        ):
            failures.append(
                f"vigil {' '.join(call[0])}, {call[2].name}={call[3][:40]!r}: {error!r:.200}"
            )
    assert not failures, f"seed {seed}:\n" + "\n".join(failures)


def test_no_path_may_be_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIGIL_DATA", str(tmp_path / "data"))
    program = build_app()
    path = "x" * 256
    tested = set()
    for names, command in commands(typer.main.get_command(program), ()):
        for parameter in command.params:
            if parameter.type_descriptor.annotation not in (Path, list[Path]):
                continue
            result = CliRunner().invoke(program, arguments((names, command, parameter, path)))
            assert result.exit_code == BadInputError.exit_code, (names, parameter.name)
            assert "the path is too long" in result.output, (names, parameter.name)
            tested.add(parameter.name)
    assert tested >= PATH_PARAMETERS | {"to", "passphrase_file", "corpus", "compare"}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize(
    "command", [["budget", "x", "--usd"], ["run", "x", "--timeout"], ["demo", "--timeout"]]
)
def test_numbers_are_finite(command: list[str], number: str) -> None:
    result = CliRunner().invoke(build_app(), [*command, number])
    assert result.exit_code == BadInputError.exit_code
    assert "Invalid value" in result.output


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


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GHANA = UUID(int=1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("90", 90)]
)
def test_formatted_durations_can_be_parsed(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds
    assert parse_seconds(format_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-3m", "1.5h"])
def test_an_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(BadInputError, match="5m"):
        parse_seconds(text)


def test_citations_are_shown_by_the_beginnings_of_their_ids() -> None:
    content = f"Gold [node:{GHANA}] and more [edge:{UUID(int=2)}]."
    assert (
        with_short_citations(content) == f"Gold [node:{str(GHANA)[:8]}] and more [edge:00000000]."
    )
