"""Golden files: the recorded requests of a mission as JSON that a person can compare."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.support.golden.recorded_services import RecordedRequest
from tests.support.paths import TESTS

UPDATE_VARIABLE: Final = "VIGIL_UPDATE_GOLDEN"
_FOLDER: Final = TESTS / "golden"
_MAX_DIFF_LINES: Final = 120
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)")
_CALL_ID: Final = re.compile(r"\bcall_[0-9a-f]{24}\b")
"""The sandbox derives the ids of tool calls from the request, whose times differ in each run."""
_LONG_CHARS: Final = 100
_PIECE: Final = re.compile(rf'.{{{_LONG_CHARS},}}?[,.;:}}](?=[ "{{\[])|.+', re.DOTALL)
"""A part of a long line. It ends where a sentence or a JSON value does, so that a change moves few later parts."""


def golden_path(name: str) -> Path:
    return _FOLDER / f"{name}.json"


def compare_with_golden(name: str, requests: Sequence[RecordedRequest], *, updates: bool) -> None:
    """Compare the requests with the golden file of that name, or write it. Raises AssertionError with the differences."""
    path = golden_path(name)
    text = render(requests)
    if updates:
        path.write_text(text, encoding="utf-8")
        return
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == stored:
        return
    lines = list(
        difflib.unified_diff(
            stored.splitlines(), text.splitlines(), "golden file", "recorded now", lineterm=""
        )
    )
    left_out = len(lines) - _MAX_DIFF_LINES
    more = f"\n... and {left_out} more lines" if left_out > 0 else ""
    differences = "\n".join(lines[:_MAX_DIFF_LINES])
    raise AssertionError(
        f"the requests differ from {path}; run with {UPDATE_VARIABLE}=1 to accept\n{differences}{more}"
    )


def render(requests: Sequence[RecordedRequest]) -> str:
    """The requests as pretty-printed JSON. Times are replaced, and the ids of tool calls numbered.

    What requests have in common is written once: declarations of tools and answer formats by their hash, and contexts by
    their number. A request that continues the conversation of the one before says how many messages it repeats, and
    contains the others.
    """
    declarations: dict[str, Any] = {}
    contexts: dict[str, str] = {}
    entries: list[Any] = []
    previous: RecordedRequest | None = None
    for recorded in requests:
        _, body = json.loads(recorded.request.call.canonical)
        messages = body.pop("messages")
        repeated = 0 if previous is None else _count_repeated(previous, recorded)
        entry = {"step": recorded.step.title, "phase": recorded.phase, **body}
        if "tools" in body:
            entry["tools"] = [
                _declare(declarations, tool["function"]["name"], tool) for tool in body["tools"]
            ]
        if (answer_format := body.get("response_format")) is not None:
            name = answer_format["json_schema"]["name"]
            entry["response_format"] = _declare(declarations, name, answer_format)
        if repeated:
            entry["repeated_messages"] = repeated
        survey = recorded.step.survey
        reference = contexts.setdefault(survey, f"context {len(contexts) + 1}")
        for message in messages:
            if message["role"] == "user":
                message["content"] = message["content"].replace(survey, f"[{reference}]")
        entries.append({**entry, "messages": messages[repeated:]})
        previous = recorded
    numbered = {reference: survey for survey, reference in contexts.items()}
    content = {"requests": entries, "contexts": numbered, "declarations": declarations}
    return json.dumps(_readable(content, {}), indent=1, ensure_ascii=False) + "\n"


def _count_repeated(previous: RecordedRequest, recorded: RecordedRequest) -> int:
    """The number of all previous messages, if the request begins with them; otherwise 0."""
    messages = previous.request.messages
    is_same_run = previous.step is recorded.step and previous.phase == recorded.phase
    begins_with_them = recorded.request.messages[: len(messages)] == messages
    return len(messages) if is_same_run and begins_with_them else 0


def _declare(declarations: dict[str, Any], name: str, declaration: Any) -> str:
    canonical = json.dumps(declaration, sort_keys=True).encode()
    key = f"{name} {sha256(canonical).hexdigest()[:12]}"
    declarations[key] = declaration
    return key


def _readable(value: Any, call_ids: dict[str, str]) -> Any:
    """The value with long texts as lists of their parts, and without what differs in each run."""
    match value:
        case str():
            text = _CALL_ID.sub(
                lambda found: call_ids.setdefault(found[0], f"call {len(call_ids) + 1}"),
                _TIME.sub("time", value),
            )
            is_long = len(text) > _LONG_CHARS or "\n" in text
            return list(_split(text)) if is_long else text
        case list():
            return [_readable(item, call_ids) for item in value]
        case dict():
            return {key: _readable(item, call_ids) for key, item in value.items()}
        case _:
            return value


def _split(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        yield from _PIECE.findall(line)
