"""Completion of command lines in a shell: commands, options, choices, files, and names of agents.

The scripts call `vigil` with `_VIGIL_COMPLETE` naming the shell, and the words of the line after `--`, the last of which
is incomplete. It prints a candidate a line, and nothing where anything fails.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from cli.help import paragraphs

SHELLS: Final = ("bash", "zsh", "fish")
MAX_NAMES: Final = 200
TIMEOUT_SECONDS: Final = 1.0
"""For the names of agents. A user does not wait longer for a completion."""

SCRIPTS: Final[Mapping[str, str]] = {
    "bash": """\
_vigil_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(_VIGIL_COMPLETE=bash vigil -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -F _vigil_completion vigil
""",
    "zsh": """\
#compdef vigil
_vigil_completion() {
    local -a candidates
    candidates=("${(@f)$(_VIGIL_COMPLETE=zsh vigil -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n ${candidates[1]} ]] && compadd -U -a candidates
}
compdef _vigil_completion vigil
""",
    "fish": """\
function __vigil_complete
    set -l words (commandline -opc) (commandline -ct)
    _VIGIL_COMPLETE=fish vigil -- $words[2..-1] 2>/dev/null
end
complete -c vigil -f -a '(__vigil_complete)'
""",
}


class Candidate(NamedTuple):
    value: str
    about: str = ""


def complete(root: Any, shell: str, words: Sequence[str]) -> int:
    """Prints the candidates for the last of `words`. Returns the exit code."""
    *before, incomplete = words or [""]
    quote = incomplete[:1] if shell == "bash" and incomplete[:1] in ("'", '"') else ""
    if shell == "bash":
        before, incomplete = [_unquoted(word) for word in before], _unquoted(incomplete)
    try:
        found = list(candidates(root, before, incomplete))
    except Exception:  # noqa: BLE001  # a message would be written into the line that the user types
        return 1
    for each in found:
        print(_written(each, shell, quote))
    return 0


def candidates(root: Any, before: Sequence[str], incomplete: str) -> Iterator[Candidate]:
    """What can stand in place of the incomplete word."""
    command, context, rest = _command_of(root, before)
    options = {name: each for each in command.get_params(context) for name in _option_names(each)}
    if rest and (waiting := options.get(rest[-1])) is not None and not waiting.is_flag:
        yield from _matching(_values(waiting, before, incomplete), incomplete)
    elif incomplete.startswith("-"):
        names = [Candidate(name, each.help or "") for name, each in options.items()]
        yield from _matching([each for each in names if each.value not in rest], incomplete)
    elif hasattr(command, "commands"):
        names = [Candidate(name, paragraphs(each)[0]) for name, each in command.commands.items()]
        yield from _matching(names, incomplete)
    elif (argument := _argument(command, options, rest)) is not None:
        yield from _matching(_values(argument, before, incomplete), incomplete)


def _command_of(root: Any, words: Sequence[str]) -> tuple[Any, Any, list[str]]:
    """The command that the words name, and the words behind its name."""
    command, context, rest = root, root.context_class(root, info_name="vigil"), list(words)
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        name = rest.pop(0)
        loaded = command.load_command(name) if hasattr(command, "load_command") else None
        command = loaded or command.commands[name]
        context = command.context_class(command, info_name=name, parent=context)
    return command, context, rest


def _option_names(parameter: Any) -> list[str]:
    if parameter.param_type_name != "option":
        return []
    return [*parameter.opts, *parameter.secondary_opts]


def _argument(command: Any, options: Mapping[str, Any], words: Sequence[str]) -> Any | None:
    """The argument that the next word is; None if the command takes no more."""
    count, is_value = 0, False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-") and word != "-":
            option = options.get(word)
            is_value = option is not None and not option.is_flag
        else:
            count += 1
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if arguments and arguments[-1].nargs == -1:
        return arguments[min(count, len(arguments) - 1)]
    return arguments[count] if count < len(arguments) else None


def _values(parameter: Any, words: Sequence[str], incomplete: str) -> Iterable[Candidate]:
    kind = parameter.type_descriptor
    if kind.is_choice and kind.choices is not None:
        return [Candidate(str(getattr(each, "value", each))) for each in kind.choices]
    if parameter.name == "agent":
        return [Candidate(name) for name in _agent_names(words)]
    if "phase" in parameter.name or (parameter.name == "keep" and parameter.multiple):
        from shared.enums import PROMPTED_PHASES

        return [Candidate(str(phase)) for phase in PROMPTED_PHASES]
    if kind.annotation is Path or parameter.name == "output":
        return _files(incomplete)
    return []


def _files(incomplete: str) -> list[Candidate]:
    directory, _, name = incomplete.rpartition("/")
    place = Path(f"{directory}/" if directory or incomplete.startswith("/") else ".").expanduser()
    prefix = f"{directory}/" if directory or incomplete.startswith("/") else ""
    entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    return [
        Candidate(f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}")
        for entry in entries
        if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith("."))
    ]


def _agent_names(words: Sequence[str]) -> list[str]:
    """Names of agents of the installation that the line names, without the libraries of the API client."""
    import json
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    from cli.client.target import Address
    from cli.config.discovery import api_url

    def option(name: str, variable: str) -> str | None:
        values = [value for before, value in pairwise(words) if before == name]
        return values[-1] if values else os.environ.get(variable)

    data = option("--data", "VIGIL_DATA")
    address = Address(
        option("--url", "VIGIL_URL"),
        option("--token", "VIGIL_TOKEN"),
        option("--profile", "VIGIL_PROFILE"),
    )
    api = api_url(address, Path(data) if data else None)
    url = urlsplit(api.url)
    connection: HTTPConnection
    if url.scheme == "https":
        from shared.tls import tls_context

        connection = HTTPSConnection(url.netloc, timeout=TIMEOUT_SECONDS, context=tls_context())
    else:
        connection = HTTPConnection(url.netloc, timeout=TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    connection.request("GET", f"{url.path}/api/v1/agents?limit={MAX_NAMES}", headers=headers)
    return [str(agent["name"]) for agent in json.load(connection.getresponse())["items"]]


def _matching(found: Iterable[Candidate], incomplete: str) -> Iterator[Candidate]:
    begin = incomplete.casefold()
    return (each for each in found if each.value.casefold().startswith(begin))


def _unquoted(word: str) -> str:
    """A word of a line in bash, which may be in quotes, or in quotes that are not closed yet."""
    if word[:1] in ("'", '"'):
        return word[1:].removesuffix(word[0])
    return re.sub(r"\\(.)", r"\1", word)


def _written(candidate: Candidate, shell: str, quote: str) -> str:
    value = "".join(each for each in candidate.value if each.isprintable())
    if shell == "fish" and candidate.about:
        return f"{value}\t{candidate.about}"
    if shell == "bash" and not quote:
        return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", value)
    return value
