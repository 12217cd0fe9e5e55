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
HELP: Final = "Run autonomous agents. Each builds a knowledge graph for its mission, finds gaps in it and draws conclusions."

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
        "Run Vigil on this machine (PostgreSQL, NATS, all services and the API) until Ctrl-C.",
    ),
    "demo": Entry(
        INSTALLATION,
        "local",
        "demo",
        "Watch a new agent plan, research, analyze and advise in a separate installation.",
    ),
    "try-model": Entry(
        INSTALLATION,
        "local",
        "try_model",
        "Test a model on a fixed mission and report what it can do.",
    ),
    "backup": Entry(
        INSTALLATION,
        "backups",
        "backup",
        "Write a backup of the installation on this machine to one file, while it runs or not.",
    ),
    "restore": Entry(
        INSTALLATION,
        "backups",
        "restore",
        "Restore a backup into an empty data directory, for `vigil up`.",
    ),
    "doctor": Entry(
        INSTALLATION,
        "operations",
        "doctor",
        "Check everything Vigil depends on and show how to fix problems.",
    ),
    "migrate": Entry(
        INSTALLATION,
        "operations",
        "migrate",
        "Create or update the tables, owner, stream and consumers.",
    ),
    "upgrade": Entry(
        INSTALLATION,
        "operations",
        "upgrade",
        "Check whether this version can take over the installation, then update it as `vigil migrate` does.",
    ),
    "keys": Entry(
        INSTALLATION,
        "operations",
        "keys",
        "Create NATS and PostgreSQL passwords for each service, and the NATS user configuration.",
    ),
    "retention": Entry(
        INSTALLATION,
        "operations",
        "retention",
        "Show what is deleted when it is old: age limits, sizes, and what was deleted.",
    ),
    "dead-letters": Entry(
        INSTALLATION,
        "operations",
        "dead_letter_commands",
        "List, retry or discard messages and steps that failed permanently.",
    ),
    "run": Entry(
        AGENTS,
        "agents",
        "run",
        "Start an iteration now. With --wait, exit with 0 only if it completes.",
    ),
    "chat": Entry(
        AGENTS,
        "chat",
        "chat",
        "Chat with an agent. Ctrl-C does not stop an answer; you can read it later.",
    ),
    "tail": Entry(
        AGENTS,
        "events",
        "tail",
        "Follow events from now, or from an earlier time, until Ctrl-C.",
    ),
    "top": Entry(
        AGENTS,
        "top",
        "top",
        "Show a live view of each service's lag, messages in flight, rate, leases and replicas until Ctrl-C.",
    ),
    "graph": Entry(
        AGENTS,
        "graph",
        "graph",
        "Show an agent's knowledge graph: types, nodes, edges, the neighbours of a node, and evidence.",
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
        "Show an agent's advice, newest first, with the analyses that support it.",
    ),
    "investigations": Entry(
        AGENTS,
        "iterations",
        "investigations",
        "Show an agent's investigation requests (data that its analyses lacked) and their state, newest first.",
    ),
    "verify": Entry(
        AGENTS,
        "sources",
        "verify",
        "Trace advice or an analysis to its sources and check every hash and link, without calling a model.",
    ),
    "export": Entry(
        AGENTS,
        "transfer",
        "export",
        "Export a consistent snapshot of an agent's graph, including its provenance.",
    ),
    "import": Entry(
        AGENTS,
        "transfer",
        "import_",
        "Create a paused agent from an exported graph, after checking every hash and seal.",
    ),
    "costs": Entry(
        AGENTS,
        "costs",
        "costs",
        "Show what model and search calls cost, and how much of today's budget is left.",
    ),
    "budget": Entry(
        AGENTS,
        "costs",
        "budget",
        "Show or set the daily budget (UTC) of an agent or of the whole installation.",
    ),
    "agent": Entry(
        AGENTS,
        "agents",
        "agent_commands",
        "Create, show, edit, pause, resume and delete agents.",
    ),
    "memory": Entry(
        AGENTS,
        "chat",
        "memory_commands",
        "Manage the preferences and facts that an agent remembers.",
    ),
    "source": Entry(
        AGENTS,
        "sources",
        "source_commands",
        "List, show, retract and restore the pages that an agent has read.",
    ),
    "node": Entry(
        AGENTS,
        "graph",
        "node_commands",
        "Find, merge and unmerge duplicate nodes, or declare nodes distinct.",
    ),
    "inbox": Entry(
        AGENTS,
        "notifications",
        "inbox_commands",
        "Show unread advice and notices, or open, mark and answer an item.",
    ),
    "destination": Entry(
        AGENTS,
        "notifications",
        "destination_commands",
        "Manage the webhooks and email addresses that also receive inbox items.",
    ),
    "login": Entry(
        ACCESS,
        "accounts",
        "login",
        "Save an installation and your token as a profile for later commands.",
    ),
    "logout": Entry(
        ACCESS,
        "accounts",
        "logout",
        "Remove a saved profile. Its token stays valid until you revoke it with `vigil token revoke`.",
    ),
    "whoami": Entry(
        ACCESS,
        "accounts",
        "whoami",
        "Show the current installation, your user and the scopes of your token.",
    ),
    "sign-in-link": Entry(
        ACCESS,
        "accounts",
        "sign_in_link",
        "Print a one-time link that signs in a browser. It expires after 15 minutes.",
    ),
    "completion": Entry(
        INSTALLATION,
        "shell",
        "completion",
        "Print a script that makes your shell complete commands, options and agent names.",
    ),
    "token": Entry(
        ACCESS,
        "accounts",
        "token_commands",
        "Create, list and revoke API tokens for programs.",
    ),
    "user": Entry(
        ACCESS,
        "accounts",
        "user_commands",
        "Manage the users of the installation (operators only).",
    ),
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
