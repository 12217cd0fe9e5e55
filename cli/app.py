"""The `vigil` command. A command's module is imported when the command is invoked, so that `--help` stays fast."""

import os
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from cli.command import CommandGroup, command_group
from cli.help import VigilCommand, VigilGroup
from cli.usage import UsageError, print_usage_error

COMPLETION_VARIABLE: Final = "_VIGIL_COMPLETE"
"""Set by the scripts of `vigil completion`."""
HELP: Final = "Autonomous agents: each builds a knowledge graph for its mission, finds its gaps, and draws conclusions."

INSTALLATION: Final = "Installation"
AGENTS: Final = "Agents"
ACCESS: Final = "Access"


class Entry(NamedTuple):
    """A command or group: where it is defined, and what `vigil --help` says of it (the first line of its help)."""

    panel: str
    module: str
    name: str
    summary: str


COMMANDS: Final = {
    "up": Entry(
        INSTALLATION,
        "local",
        "up",
        "Run Vigil on this machine: PostgreSQL, NATS, all services and the API, until Ctrl-C.",
    ),
    "demo": Entry(
        INSTALLATION,
        "local",
        "demo",
        "Watch a new agent plan, research, analyze and advise, on an installation of its own.",
    ),
    "try-model": Entry(
        INSTALLATION,
        "local",
        "try_model",
        "Test a model on a fixed mission, and report what it can do.",
    ),
    "doctor": Entry(
        INSTALLATION,
        "operations",
        "doctor",
        "Check everything Vigil depends on, and say how to fix what is wrong.",
    ),
    "migrate": Entry(
        INSTALLATION,
        "operations",
        "migrate",
        "Create the tables, the owner, the stream and its consumers, or bring them up to date.",
    ),
    "keys": Entry(
        INSTALLATION,
        "operations",
        "keys",
        "Create a password for each service on NATS and PostgreSQL, and the NATS user configuration.",
    ),
    "dead-letters": Entry(
        INSTALLATION,
        "operations",
        "dead_letter_commands",
        "Messages and steps that failed for good: list, retry or discard them.",
    ),
    "run": Entry(
        AGENTS,
        "agents",
        "run",
        "Start an iteration now. With --wait, exit with 0 only if it completed.",
    ),
    "chat": Entry(
        AGENTS,
        "chat",
        "chat",
        "Talk with an agent. After Ctrl-C the answer continues, and can be read later.",
    ),
    "tail": Entry(
        AGENTS,
        "events",
        "tail",
        "Follow the events of the bus, from now or from any point of its history, until Ctrl-C.",
    ),
    "top": Entry(
        AGENTS,
        "top",
        "top",
        "Show each service's lag, messages in flight, rate, leases and replicas, live until Ctrl-C.",
    ),
    "graph": Entry(
        AGENTS,
        "graph",
        "graph",
        "Show an agent's knowledge graph: types, nodes, edges, neighbours of a node, and evidence.",
    ),
    "iterations": Entry(
        AGENTS, "iterations", "iterations", "List an agent's iterations, newest first."
    ),
    "iteration": Entry(
        AGENTS,
        "iterations",
        "iteration",
        "Show an iteration: its plan, its steps and their results.",
    ),
    "analyses": Entry(
        AGENTS,
        "iterations",
        "analyses",
        "Show an agent's analyses, newest first, each with its citations.",
    ),
    "advice": Entry(
        AGENTS,
        "iterations",
        "advice",
        "Show an agent's advice, newest first, each with the analyses it is based on.",
    ),
    "investigations": Entry(
        AGENTS,
        "iterations",
        "investigations",
        "Show the data that an agent's analyses were missing, newest first, and what came of it.",
    ),
    "verify": Entry(
        AGENTS,
        "sources",
        "verify",
        "Follow advice or an analysis to its sources, and check every hash and link. No model is called.",
    ),
    "export": Entry(
        AGENTS,
        "transfer",
        "export",
        "Export an agent's graph with its provenance, as of one moment.",
    ),
    "import": Entry(
        AGENTS,
        "transfer",
        "import_",
        "Create a new, paused agent from an exported graph. Every hash and seal is checked.",
    ),
    "costs": Entry(
        AGENTS,
        "costs",
        "costs",
        "Show what model and search calls cost, and what is left of today's budget.",
    ),
    "budget": Entry(
        AGENTS,
        "costs",
        "budget",
        "Show or set what an agent, or the whole installation, may spend in a day (UTC).",
    ),
    "agent": Entry(
        AGENTS,
        "agents",
        "agent_commands",
        "Create agents, show, change, pause, resume and delete them.",
    ),
    "memory": Entry(
        AGENTS, "chat", "memory_commands", "What an agent remembers: your wishes and facts."
    ),
    "source": Entry(
        AGENTS,
        "sources",
        "source_commands",
        "The pages an agent has read: list, show, retract and restore them.",
    ),
    "node": Entry(
        AGENTS,
        "graph",
        "node_commands",
        "Duplicate nodes: find, merge and unmerge them, or declare them distinct.",
    ),
    "inbox": Entry(
        AGENTS,
        "notifications",
        "inbox_commands",
        "Show unread advice and notices; or read and mark single items.",
    ),
    "destination": Entry(
        AGENTS,
        "notifications",
        "destination_commands",
        "Webhooks and mail addresses that receive advice, besides the inbox.",
    ),
    "login": Entry(
        ACCESS,
        "accounts",
        "login",
        "Save an installation and your token for it, for later commands.",
    ),
    "logout": Entry(
        ACCESS,
        "accounts",
        "logout",
        "Remove a saved installation. Its token stays valid until `vigil token revoke`.",
    ),
    "whoami": Entry(
        ACCESS, "accounts", "whoami", "Show the installation, your user and what your token allows."
    ),
    "sign-in-link": Entry(
        ACCESS,
        "accounts",
        "sign_in_link",
        "Print a link that signs a browser in, once, within 15 minutes.",
    ),
    "completion": Entry(
        INSTALLATION,
        "shell",
        "completion",
        "Print a script that completes commands, options and names of agents in your shell.",
    ),
    "token": Entry(
        ACCESS,
        "accounts",
        "token_commands",
        "API tokens for programs: create, list and revoke them.",
    ),
    "user": Entry(ACCESS, "accounts", "user_commands", "Users of the installation, for operators."),
}


def run(arguments: list[str]) -> int:
    """Runs a command line, and returns its exit code. Raises VigilError."""
    command = typer.main.get_command(build_app())
    if shell := os.environ.get(COMPLETION_VARIABLE):
        from cli.completion import complete

        return complete(command, shell, arguments[1:])
    try:
        with command.make_context("vigil", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except UsageError as error:
        return print_usage_error(error)
    return 0


class LazyCommands(VigilGroup):
    """Lists commands by their summaries, and imports a command when it is invoked."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: VigilCommand(name, help=entry.summary, rich_help_panel=entry.panel)
            for name, entry in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, remaining = super().resolve_command(ctx, args)
        return name, command if name is None else self.load_command(name), remaining

    def load_command(self, name: str) -> Any:
        """The command or group itself, in place of the entry that --help lists."""
        entry = COMMANDS[name]
        target = getattr(import_module(f"cli.commands.{entry.module}"), entry.name)
        if isinstance(target, CommandGroup):
            return typer.main.get_command(target)
        group = command_group(name, entry.summary)
        group.command(name)(target)
        return typer.main.get_command(group)


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
