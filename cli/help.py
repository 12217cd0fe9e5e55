"""The help of every command, written without Rich, whose import takes longer than all the rest of `--help`.

`cli.reference` writes the same facts as a document.
"""

import os
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from errno import ENAMETOOLONG
from pathlib import Path
from typing import Any, Final, NamedTuple

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

MIN_WIDTH: Final = 30
MAX_WIDTH: Final = 100
MAX_NAMES_WIDTH: Final = 30
"""Where the names of an option are longer, its help begins on the next line."""
CONNECTION: Final = ("url", "data", "token", "profile")
"""Options that choose the installation; they have a section of their own."""
OPTIONS: Final = "Options"
MAX_WORD_CHARS: Final = 80
_STYLE: Final = re.compile("\x1b\\[[0-9]+m")
_CODE: Final = re.compile(r"`([^`]+)`")


class ParameterHelp(NamedTuple):
    """An argument or option as users see it."""

    names: str
    """`--limit N`, or `AGENT`."""
    text: str
    default: str
    """Empty if there is none worth showing."""
    limits: str
    """The numbers that are allowed, or empty."""
    environment: str
    """The variable that sets it, or empty."""
    section: str

    @property
    def full_text(self) -> str:
        notes = [self.limits] if self.limits else []
        notes += [f"default: {self.default}"] if self.default else []
        notes += [f"or {self.environment}"] if self.environment else []
        return f"{self.text} ({'; '.join(notes)})" if notes else self.text


def parameters(command: Any, context: Any) -> list[ParameterHelp]:
    """The arguments of a command, its options, then those that choose the installation."""
    names = {parameter.name for parameter in command.params}
    connects = {"url", "token"} <= names
    rows = []
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False):
            continue
        section = OPTIONS
        if parameter.param_type_name == "argument":
            section = "Arguments"
        elif connects and parameter.name in CONNECTION:
            section = "Connection"
        rows.append(_describe(parameter, context, section))
    order = ("Arguments", OPTIONS, "Connection")
    return sorted(rows, key=lambda row: order.index(row.section))


def usage(command: Any, context: Any) -> str:
    """`vigil run [OPTIONS] AGENT`"""
    pieces = [context.command_path, "[OPTIONS]"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = f"{metavar(parameter)}{'...' if parameter.nargs == -1 else ''}"
            pieces.append(name if parameter.required else f"[{name}]")
    if isinstance(command, TyperGroup):
        pieces.append("COMMAND [ARGS]...")
    return " ".join(pieces)


def metavar(parameter: Any) -> str:
    """What stands for the value of a parameter; empty for a flag, which has none."""
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar is not None:
        return str(parameter.metavar)
    kind = parameter.type_descriptor
    if kind.is_choice and kind.choices is not None:
        return "|".join(_shown(choice) for choice in kind.choices)
    if kind.annotation in (int, float):
        return "N"
    return str(parameter.name).upper().replace("_", "-")


def paragraphs(command: Any) -> list[str]:
    """The help of a command, one line a paragraph."""
    return [" ".join(each.split()) for each in (command.help or "").split("\n\n")]


class VigilCommand(TyperCommand):
    """A command whose help Vigil writes itself, and whose paths are checked before it begins."""

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **{**attributes, "rich_markup_mode": None})

    def invoke(self, ctx: Any) -> Any:
        for parameter in self.params:
            values = ctx.params.get(parameter.name)
            for value in values if isinstance(values, list | tuple) else (values,):
                if isinstance(value, Path):
                    _refuse_too_long(value, parameter, ctx)
        return super().invoke(ctx)

    def get_usage(self, ctx: Any) -> str:
        return f"Usage: {usage(self, ctx)}"

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_text(self, ctx))


class VigilGroup(TyperGroup):
    """A group of commands whose help Vigil writes itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "rich_markup_mode": None, "suggest_commands": False})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        word = args[0]
        if word not in self.commands and not word.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(word, list(self.commands), cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "the help lists all commands"
            ctx.fail(f"there is no command {word[:MAX_WORD_CHARS]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def get_usage(self, ctx: Any) -> str:
        return f"Usage: {usage(self, ctx)}"

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_text(self, ctx))


def _refuse_too_long(path: Path, parameter: Any, context: Any) -> None:
    """Refuses a path that no file can have. Before Python 3.13 `Path.is_dir` and others raise OSError for it."""
    try:
        path.lstat()
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise BadParameter("the path is too long", context, parameter) from None


def _describe(parameter: Any, context: Any, section: str) -> ParameterHelp:
    value = metavar(parameter)
    if section == "Arguments":
        names = value
    else:
        long_first = sorted(parameter.opts, key=len, reverse=True)
        names = ", ".join([*long_first, *parameter.secondary_opts])
        names = f"{names} {value}" if value else names
    environment = getattr(parameter, "envvar", None) or ""
    default = _default(parameter, context)
    limits = _limits(parameter)
    return ParameterHelp(names, parameter.help or "", default, limits, str(environment), section)


def _limits(parameter: Any) -> str:
    if metavar(parameter) == "":
        return ""
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if most is not None:
        return f"{_shown(least or 0)} to {_shown(most)}"
    return f"at least {_shown(least)}" if least else ""


def _default(parameter: Any, context: Any) -> str:
    described = getattr(parameter, "show_default", True)
    if isinstance(described, str):
        return described
    value = parameter.get_default(context, call=False)
    if not described or value is None or value in (False, (), [], ""):
        return ""
    if value is True:
        return str(parameter.opts[0]) if getattr(parameter, "secondary_opts", ()) else ""
    return _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value.value if isinstance(value, Enum) else value)


def _help_text(command: Any, context: Any) -> str:
    text = "\n".join(_help_lines(command, context))
    return _STYLE.sub("", text) if os.environ.get("NO_COLOR") else text


def _help_lines(command: Any, context: Any) -> Iterator[str]:
    width = min(max(shutil.get_terminal_size().columns, MIN_WIDTH), MAX_WIDTH)
    yield from _wrapped(f"{_heading('Usage:')} {usage(command, context)}", width, "       ")
    yield ""
    for paragraph in paragraphs(command):
        yield from _wrapped(paragraph, width)
        yield ""
    for section, rows in _sections(command, context):
        yield _heading(f"{section}:")
        yield from _table(rows, width)
        yield ""
    from cli.examples import EXAMPLES

    lines = EXAMPLES.get(context.command_path, ())
    if lines:
        yield _heading("Examples:" if len(lines) > 1 else "Example:")
        yield from (f"  {line}" for line in lines)
        yield ""


def _sections(command: Any, context: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    rows: dict[str, list[tuple[str, str]]] = {}
    for each in parameters(command, context):
        rows.setdefault(each.section, []).append((each.names, each.full_text))
    if not isinstance(command, TyperGroup):
        yield from rows.items()
        return
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, subcommand in command.commands.items():
        panel = getattr(subcommand, "rich_help_panel", None)
        panels.setdefault(panel if isinstance(panel, str) else "Commands", []).append(
            (name, paragraphs(subcommand)[0])
        )
    yield from panels.items()
    yield from rows.items()


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    names_width = min(max(len(names) for names, _ in rows), MAX_NAMES_WIDTH, max(8, width // 3))
    indent = " " * (names_width + 4)
    for names, text in rows:
        lines = list(_wrapped(text, width - len(indent)))
        if len(names) <= names_width and lines:
            yield f"  {_name(names)}{' ' * (names_width - len(names))}  {lines.pop(0)}"
        else:
            yield f"  {_name(names)}"
        yield from (f"{indent}{line}" for line in lines)


def _wrapped(text: str, width: int, later: str = "") -> Iterator[str]:
    lines = textwrap.wrap(
        text,
        max(width, 12),
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (_CODE.sub("\x1b[1m`\\1`\x1b[22m", line) for line in lines)


# The writer of the help removes these where the output is no terminal.
def _heading(text: str) -> str:
    return f"\x1b[1m{text}\x1b[22m"


def _name(text: str) -> str:
    return f"\x1b[36m{text}\x1b[39m"
