"""The `vigil` command. A command's module is imported when the command is invoked, so that `--help` stays fast."""

import ast
import os
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from cli.command import command_group
from cli.errors import BAD_INPUT
from cli.main import raise_on_interrupt
from cli.options import COMPLETION_VARIABLE

HELP: Final = "Run autonomous agents. Each builds a knowledge graph for its mission, finds gaps in it and draws conclusions."
UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""Every error in a command line. Typer exports only this one subclass."""

INSTALLATION: Final = "Installation"
AGENTS: Final = "Agents"
ACCESS: Final = "Access"


class Entry(NamedTuple):
    """Where a command or a group of commands is defined, and under which heading `vigil --help` lists it."""

    panel: str
    module: str
    name: str


COMMANDS: Final = {
    "up": Entry(INSTALLATION, "local", "up"),
    "demo": Entry(INSTALLATION, "local", "demo"),
    "try-model": Entry(INSTALLATION, "local", "try_model"),
    "backup": Entry(INSTALLATION, "backups", "backup"),
    "restore": Entry(INSTALLATION, "backups", "restore"),
    "doctor": Entry(INSTALLATION, "operations", "doctor"),
    "migrate": Entry(INSTALLATION, "operations", "migrate"),
    "upgrade": Entry(INSTALLATION, "operations", "upgrade"),
    "keys": Entry(INSTALLATION, "operations", "keys"),
    "retention": Entry(INSTALLATION, "operations", "retention"),
    "dead-letters": Entry(INSTALLATION, "operations", "dead_letter_commands"),
    "completion": Entry(INSTALLATION, "shell", "completion"),
    "run": Entry(AGENTS, "agents", "run"),
    "chat": Entry(AGENTS, "chat", "chat"),
    "tail": Entry(AGENTS, "events", "tail"),
    "top": Entry(AGENTS, "top", "top"),
    "graph": Entry(AGENTS, "graph", "graph"),
    "iterations": Entry(AGENTS, "iterations", "iterations"),
    "iteration": Entry(AGENTS, "iterations", "iteration"),
    "analyses": Entry(AGENTS, "iterations", "analyses"),
    "advice": Entry(AGENTS, "iterations", "advice"),
    "investigations": Entry(AGENTS, "iterations", "investigations"),
    "verify": Entry(AGENTS, "sources", "verify"),
    "export": Entry(AGENTS, "transfer", "export"),
    "import": Entry(AGENTS, "transfer", "import_"),
    "costs": Entry(AGENTS, "costs", "costs"),
    "budget": Entry(AGENTS, "costs", "budget"),
    "agent": Entry(AGENTS, "agents", "agent_commands"),
    "memory": Entry(AGENTS, "chat", "memory_commands"),
    "source": Entry(AGENTS, "sources", "source_commands"),
    "node": Entry(AGENTS, "graph", "node_commands"),
    "inbox": Entry(AGENTS, "notifications", "inbox_commands"),
    "destination": Entry(AGENTS, "notifications", "destination_commands"),
    "login": Entry(ACCESS, "accounts", "login"),
    "logout": Entry(ACCESS, "accounts", "logout"),
    "whoami": Entry(ACCESS, "accounts", "whoami"),
    "sign-in-link": Entry(ACCESS, "accounts", "sign_in_link"),
    "token": Entry(ACCESS, "accounts", "token_commands"),
    "user": Entry(ACCESS, "accounts", "user_commands"),
}


def run(arguments: list[str]) -> int:
    """Runs a command line, and returns its exit code. Raises VigilError."""
    command = typer.main.get_command(build_app())
    if os.environ.get(COMPLETION_VARIABLE):
        from typer.completion import completion_init  # type: ignore[attr-defined]  # not in __all__

        completion_init()
        command.main([], prog_name="vigil", complete_var=COMPLETION_VARIABLE)
    try:
        with command.make_context("vigil", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except UsageError as error:
        if (find_causes := getattr(error.__cause__, "errors", None)) is not None:
            from shared.errors import describe_invalid_value

            # pydantic's own text is for programmers.
            error.message = describe_invalid_value(find_causes()[0])
        error.show()
        return BAD_INPUT
    return 0


class LazyCommands(TyperGroup):
    """Lists commands by their docstrings, and imports a command when it is invoked."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name=name) for name in COMMANDS}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The entry for lists of commands."""
        if (entry := COMMANDS.get(cmd_name)) is None:
            return None
        summary = _summaries(entry.module)[entry.name]
        return TyperCommand(name=cmd_name, help=summary, short_help=summary)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel in (INSTALLATION, AGENTS, ACCESS):
            with formatter.section(panel):
                names = [name for name, entry in COMMANDS.items() if entry.panel == panel]
                formatter.write_dl([(name, self.get_command(ctx, name).help) for name in names])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, remaining = super().resolve_command(ctx, args)
        return name, load_command(name) if name else None, remaining


def load_command(name: str) -> Any:
    """The command or group itself, in place of its entry."""
    entry = COMMANDS[name]
    target = getattr(import_module(f"cli.commands.{entry.module}"), entry.name)
    raise_on_interrupt()  # after the import, which may turn it into another error
    if not isinstance(target, typer.Typer):
        app = command_group(name, "")
        app.command(name)(target)
        return typer.main.get_command(app)
    group: Any = typer.main.get_command(target)
    for command in group.commands.values():
        command.short_help = command.help.partition("\n")[0]  # which a list does not cut
    return group


@cache
def _summaries(module: str) -> dict[str, str]:
    """The first lines of docstrings, and the help of groups, in the source: to import all commands takes long."""
    source = (Path(__file__).parent / "commands" / f"{module}.py").read_text("utf-8")
    summaries = {}
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef():
                summaries[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Name(id="command_group"), args=[_, ast.Constant(value=text)]
                ),
            ):
                summaries[name] = str(text)
    return summaries


def build_app() -> typer.Typer:
    """The command `vigil`."""
    app = command_group("vigil", HELP, cls=LazyCommands)
    app.callback()(_options)
    return app


def _print_version(requested: bool) -> None:
    if requested:
        from shared.version import vigil_version

        typer.echo(f"vigil {vigil_version()}")
        raise typer.Exit


def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass
