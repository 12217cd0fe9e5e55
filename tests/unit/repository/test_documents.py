"""Documents: links resolve, and the commands, files and names in them exist."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from cli.app import build_app
from services.api.resources.operate.dead_letters import REASONS
from tests.support.case_files import read_cases
from tests.support.paths import ROOT, TESTS

CASES = read_cases(__file__)

MAX_README_LINES: Final = 150
DOCUMENTS: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN_BY_PROGRAMS: Final = {"guarantees.md", "performance.md", "soak.md"}
BY_HAND: Final = [file for file in DOCUMENTS if file.name not in WRITTEN_BY_PROGRAMS]

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_MAKE: Final = re.compile(r"^make((?: [a-z][a-z-]*)+)")
_VIGIL: Final = re.compile(r"(?:^|(?:run --rm|exec \w+|-T migrate) )vigil((?: [a-z][a-z-]*)+)")
_COMMAND: Final = re.compile(r"^\W ([a-z][a-z-]*) ", re.MULTILINE)
_PLACE: Final = re.compile(
    r"(?<![\w/])((?:services|shared|cli|sandbox|bench|tests)/[\w/]+\.(?:py|toml))(?:::(\w+))?"
)
_TEST: Final = re.compile(
    r"(?<![\w/])((?:unit|integration|e2e|cluster|chaos)/[\w/]+\.py)(?:::(\w+))?"
)


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def commands_in(text: str) -> Iterator[str]:
    """Yield every line of a code block, without its trailing comment, and every inline code span."""
    for block in _FENCE.findall(text):
        for line in block.splitlines()[1:-1]:
            yield line.split(" #")[0].strip()
    yield from (span.strip() for span in _CODE.findall(_FENCE.sub("", text)))


@cache
def anchors_of(file: Path) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", file.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_names(pattern: re.Pattern[str], text: str, base: Path) -> list[str]:
    """Return the `path.py` and `path.py::name` in `text` that `base` does not contain."""
    missing = []
    for path, name in pattern.findall(text):
        file = base / path
        defined = rf"^\s*(?:async def|def|class) {name}\b|^{name}\b"
        if not file.is_file() or (name and not re.search(defined, file.read_text(), re.M)):
            missing.append(f"{path}::{name}" if name else path)
    return missing


@cache
def subcommands(*path: str) -> set[str] | None:
    """Return the commands listed by `vigil PATH --help`; None if it is not a group of commands."""
    environment = {"COLUMNS": "200", "NO_COLOR": "1"}
    result = CliRunner().invoke(build_app(), [*path, "--help"], env=environment, prog_name="vigil")
    assert result.exit_code == 0, result.output
    return set(_COMMAND.findall(result.output)) if "COMMAND [ARGS]" in result.output else None


def unknown_vigil_command(line: str) -> str | None:
    """Return the first unknown command of a `vigil` command line, or None."""
    match = _VIGIL.search(line)
    path: list[str] = []
    for word in match[1].split() if match else ():
        commands = subcommands(*path)
        if commands is None:
            return None
        if word not in commands:
            return word
        path.append(word)
    return None


def broken_links(file: Path) -> Iterator[str]:
    for link in _LINK.findall(_FENCE.sub("", file.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            yield f"{name_of(file)}: {link}"


def test_relative_links_resolve() -> None:
    assert [link for file in DOCUMENTS for link in broken_links(file)] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    unknown = {
        f"{name_of(file)}: {word}"
        for file in DOCUMENTS
        for line in commands_in(file.read_text())
        if (match := _MAKE.match(line))
        for word in match[1].split()
        if word not in targets
    }
    assert unknown == set()


def test_vigil_commands_exist() -> None:
    unknown = {
        f"{name_of(file)}: {line}"
        for file in DOCUMENTS
        for line in commands_in(file.read_text())
        if unknown_vigil_command(line)
    }
    assert unknown == set()


def test_files_and_names_exist() -> None:
    missing = {name_of(file): missing_names(_PLACE, file.read_text(), ROOT) for file in BY_HAND}
    assert {name: names for name, names in missing.items() if names} == {}


def test_tests_named_by_the_security_page_exist() -> None:
    assert missing_names(_TEST, (ROOT / "docs" / "security.md").read_text(), TESTS) == []


@pytest.mark.parametrize(("line", "unknown"), CASES["an_unknown_command_is_reported"])
def test_an_unknown_command_is_reported(line: str, unknown: str | None) -> None:
    assert unknown_vigil_command(line) == unknown


def test_a_missing_name_is_reported() -> None:
    text = "`shared/errors.py::VigilError` `shared/errors.py::Nothing` `shared/nothing.py`"
    assert missing_names(_PLACE, text, ROOT) == ["shared/errors.py::Nothing", "shared/nothing.py"]


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [each for each in settings["contracts"] if each["name"] == "the layers of shared"]
    checked = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    text = (ROOT / "docs" / "architecture.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("shared.")]
    assert [set(re.findall(r"shared\.(\w+)", line)) for line in lines] == checked


def test_every_code_that_the_dead_letter_page_explains_is_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbooks" / "dead-letters.md").read_text()
    assert [code for code in REASONS if f"`{code}`" not in runbook] == []


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    index = (decisions / "README.md").read_text()
    assert [file.name for file in decisions.glob("0*.md") if f"({file.name})" not in index] == []
