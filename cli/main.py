"""The `vigil` command."""

import sys
from typing import Annotated, Any, Final

import typer

from cli.commands import agent, dead_letters, memory
from cli.commands.chat import chat
from cli.commands.demo import demo
from cli.commands.doctor import doctor
from cli.commands.graph import graph
from cli.commands.inbox import inbox
from cli.commands.keys import keys
from cli.commands.migrate import migrate
from cli.commands.run import run
from cli.commands.tail import tail
from cli.commands.top import top
from cli.commands.up import up

INSTALLATION: Final = "Installation"
AGENTS: Final = "Agents"
HELP: Final = "Agents that keep watch: each builds a knowledge graph for its mission, finds its gaps, and concludes from it."


def main() -> None:
    """Entry of `vigil`: what goes wrong on purpose is told in a line, and no traceback."""
    from shared.errors import VigilError

    try:
        build_app()(prog_name="vigil")
    except VigilError as error:
        _say(error)
        raise SystemExit(getattr(error, "exit_code", 1)) from None
    except BrokenPipeError:
        # Whoever read us (`| head`) has seen enough.
        sys.stdout = None
        raise SystemExit(0) from None


def build_app() -> typer.Typer:
    app = _group("vigil", HELP)
    app.callback()(_options)
    for of_installation in (up, demo, doctor, migrate, keys):
        app.command(rich_help_panel=INSTALLATION)(of_installation)
    agents = _group("agent", "Make agents, look at them, pause, resume and delete them.")
    agents.command("list")(agent.list_all)
    for order in (agent.create, agent.show, agent.pause, agent.resume, agent.delete):
        agents.command()(order)
    app.add_typer(agents, name="agent", rich_help_panel=AGENTS)
    for of_agents in (run, chat, tail, top, graph, inbox):
        app.command(rich_help_panel=AGENTS)(of_agents)
    memories = _group("memory", "What an agent remembers of what you told it.")
    memories.command("list")(memory.list_all)
    for of_memories in (memory.add, memory.forget):
        memories.command()(of_memories)
    app.add_typer(memories, name="memory", rich_help_panel=AGENTS)
    letters = _group("dead-letters", "What could not be handled: look at it, retry or discard it.")
    letters.command("list")(dead_letters.list_all)
    for of_letters in (dead_letters.show, dead_letters.retry, dead_letters.discard):
        letters.command()(of_letters)
    app.add_typer(letters, name="dead-letters", rich_help_panel=INSTALLATION)
    return app


def _group(name: str, told: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=told,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode="markdown",
    )


def _version(wanted: bool) -> None:
    if wanted:
        from shared.version import vigil_version

        typer.echo(f"vigil {vigil_version()}")
        raise typer.Exit


def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and end.",
            callback=_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


def _say(error: Any) -> None:
    from rich.markup import escape

    from cli.show.console import err

    err().print(f"[bad]vigil:[/] {escape(str(error))}", soft_wrap=True)
