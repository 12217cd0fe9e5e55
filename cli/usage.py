"""Errors in a command line, in words for users: the libraries' own name neither the value nor what to write."""

import os
import sys
from difflib import get_close_matches
from typing import Any, Final

from typer import BadParameter, echo

from cli.errors import BAD_INPUT
from cli.help import metavar, usage

UsageError: Final[Any] = BadParameter.__mro__[1]
"""Every error in a command line. Typer exports only this one subclass, so the others are known by their names."""
MAX_VALUE_CHARS: Final = 80


def print_usage_error(error: Any) -> int:
    """Prints what is wrong, how the command is used and where its help is. Returns the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        echo(error.format_message(), err=True)
        return BAD_INPUT
    bold = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    name = "\x1b[31mvigil:\x1b[0m" if bold else "vigil:"
    echo(f"{name} {printable(explain(error))}", err=True)
    if error.ctx is not None:
        echo(f"Usage: {usage(error.ctx.command, error.ctx)}", err=True)
        echo(f"For help, run `{error.ctx.command_path} --help`.", err=True)
    return BAD_INPUT


def explain(error: Any) -> str:
    """What is wrong with the command line, and what to write instead."""
    match type(error).__name__:
        case "MissingParameter":
            return (
                f"{_name(error.param)} is missing: {_lowered(error.param.help or 'give a value')}"
            )
        case "BadParameter":
            return _explain_value(error)
        case "NoSuchOption":
            return _explain_option(error)
        case "BadOptionUsage":
            return _explain_option_usage(error)
        case _:
            return _explain_words(str(error.message))


def printable(text: str) -> str:
    """`text` without characters that control a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _explain_value(error: Any) -> str:
    value = _value(error)
    name = _name(error.param) if error.param is not None else "a value"
    shown = "" if value is None else f" {_cut(str(value))!r}"
    return f"{name}{shown}: {_reason(error)}"


def _value(error: Any) -> Any:
    """The value that was refused; None if it is part of the message already."""
    if error.__cause__ is None or not hasattr(error.__cause__, "errors"):
        return None
    return error.__cause__.errors()[0].get("input")


def _reason(error: Any) -> str:
    from shared.errors import describe_invalid_value

    cause = error.__cause__
    kind = getattr(error.param, "type_descriptor", None)
    if kind is not None and kind.is_choice and kind.choices:
        return (
            f"choose from {', '.join(str(getattr(each, 'value', each)) for each in kind.choices)}"
        )
    if cause is not None and hasattr(cause, "errors"):
        return describe_invalid_value(cause.errors()[0])
    return str(error.message).rstrip(".")


def _explain_option(error: Any) -> str:
    command = error.ctx.command if error.ctx is not None else None
    names = [
        name
        for each in getattr(command, "params", ())
        for name in (*each.opts, *each.secondary_opts)
    ]
    near = get_close_matches(error.option_name, [name for name in names if name.startswith("-")])
    hint = f"did you mean {' or '.join(near)}?" if near else "unknown option"
    return f"{_cut(error.option_name)}: {hint}"


def _explain_option_usage(error: Any) -> str:
    name = error.option_name
    if "does not take a value" in error.message:
        return f"{name} takes no value: remove the = and what follows"
    return f"{name} needs a value"


def _explain_words(message: str) -> str:
    if message.startswith("Got unexpected extra argument"):
        words = message.rpartition(" (")[2].rstrip(").")
        return f"{_cut(words)}: unexpected argument; put quotes around a name of several words"
    if message.startswith("Missing command"):
        return "name a command"
    return _lowered(message)


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return metavar(parameter)
    return str(max(parameter.opts, key=len))


def _lowered(text: str) -> str:
    text = text.rstrip(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"
