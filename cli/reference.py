"""Writes docs/reference/cli.md from the commands themselves: `python -m cli.reference [--check] FILE`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from cli.app import COMMANDS, HELP, LazyCommands, build_app
from cli.examples import EXAMPLES
from cli.help import ParameterHelp, paragraphs, parameters, usage

INTRODUCTION: Final = f"""\
# Commands

<!-- Written by `make cli-reference` from the commands themselves. -->

{HELP} In a terminal, `vigil COMMAND --help` shows the same information.

## Names

Wherever a command takes something with a name, such as an agent, a node, an analysis, advice, a source or a token, you can
enter the beginning of its name (in uppercase or lowercase) or at least four digits from the beginning of its id. An exact
match takes precedence. If nothing matches, or several things do, the error lists likely candidates.

Tables show the first eight digits of an id, which commands accept. `--json` prints full ids.

## Exit codes

| code | meaning |
|---|---|
| 0 | done; also if the reader closes the output early, as `head` does, and when you stop `up`, `tail` or `top` with Ctrl-C |
| 1 | the operation failed, was not confirmed, or had a negative result (see below) |
| 2 | the command line or a setting is invalid; nothing was started or changed |
| 130 | interrupted with Ctrl-C |

The result is negative if `verify` finds a break, `doctor` finds a problem, the iteration of `run --wait` does not complete,
a test delivery fails, or something that you named does not exist. A doubt is not a break: `verify` reports conclusions in
doubt first, and exits with 0 if everything is intact.

## Environment variables

| variable | meaning |
|---|---|
| `VIGIL_URL`, `VIGIL_TOKEN`, `VIGIL_PROFILE`, `VIGIL_DATA` | the options `--url`, `--token`, `--profile` and `--data` |
| `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_MODEL` | the model server, for `up`, `demo` and `try-model` |
| `TAVILY_API_KEY`, `TAVILY_BASE_URL` | the search service |
| `VIGIL_DATABASE_URL`, `VIGIL_NATS_URL` | PostgreSQL and NATS of an installation that `vigil up` did not start |
| `VIGIL_SECRETS_DIR` | directories with a file for each secret |
| `EDITOR` | the editor of `agent prompts --edit` |
| `NO_COLOR` | if set, output has no colours |
| `VIGIL_TRACEBACK` | if set, errors are printed with a traceback |

[Operations](../guide/operations.md) lists the settings of the services.
"""
CONNECTION: Final = "Connection"


def commands(root: LazyCommands) -> Iterator[tuple[str, Any, Any]]:
    """Each command with its path and context, in the order of `vigil --help`; groups before their commands."""
    top = root.context_class(root, info_name="vigil")
    for name in COMMANDS:
        command = root.load_command(name)
        context = command.context_class(command, info_name=name, parent=top)
        yield context.command_path, command, context
        for subname, subcommand in getattr(command, "commands", {}).items():
            below = subcommand.context_class(subcommand, info_name=subname, parent=context)
            yield below.command_path, subcommand, below


def document() -> str:
    """The whole reference, in Markdown."""
    root = typer.main.get_command(build_app())
    assert isinstance(root, LazyCommands)
    pages = list(commands(root))
    lines = [INTRODUCTION, *_connection(pages)]
    panel = ""
    for path, command, context in pages:
        entry = COMMANDS[path.split()[1]]
        if entry.panel != panel:
            panel = entry.panel
            lines += [f"## {panel}", ""]
        lines += _section(path, command, context)
    return "\n".join(lines).rstrip() + "\n"


def _connection(pages: list[tuple[str, Any, Any]]) -> Iterator[str]:
    """The options that choose the installation, once for all commands."""
    _, command, context = next(page for page in pages if page[0] == "vigil whoami")
    rows = [row for row in parameters(command, context) if row.section == CONNECTION]
    yield "## Options that choose the installation\n"
    yield from _table(rows)


def _section(path: str, command: Any, context: Any) -> Iterator[str]:
    yield f"### {path}\n"
    for paragraph in paragraphs(command):
        yield f"{paragraph}\n"
    yield f"```\n{usage(command, context)}\n```\n"
    rows = parameters(command, context)
    shown = [row for row in rows if row.section != CONNECTION and row.names != "--help"]
    if shown:
        yield from _table(shown)
    if len(shown) < len(rows) - 1:
        yield "Takes the [options that choose the installation](#options-that-choose-the-installation).\n"
    if examples := EXAMPLES.get(path):
        yield "\n".join(["```", *examples, "```\n"])


def _table(rows: list[ParameterHelp]) -> Iterator[str]:
    yield "| name | meaning | default | variable |"
    yield "|---|---|---|---|"
    for row in rows:
        text = f"{row.text} ({row.limits})" if row.limits else row.text
        variable = f"`{row.environment}`" if row.environment else ""
        yield f"| `{_cell(row.names)}` | {_cell(text)} | {_cell(row.default)} | {variable} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Writes the reference, or checks that the file is current."""
    parser = argparse.ArgumentParser(description="Writes or checks the reference of the commands.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    arguments = parser.parse_args()
    file: Path = arguments.file
    if arguments.check:
        if not file.exists() or file.read_text() != document():
            sys.exit(f"{file} is out of date: run `make cli-reference`")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document())


if __name__ == "__main__":
    main()
