"""The `vigil` command."""

import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from cli.client.target import with_credentials
from cli.commands import (
    access,
    agent,
    configuring,
    dead_letters,
    destination,
    memory,
    node,
    source,
    token,
    user,
)
from cli.commands.budget import budget
from cli.commands.chat import chat
from cli.commands.conclusions import advice, analyses
from cli.commands.costs import costs
from cli.commands.demo import demo
from cli.commands.doctor import doctor
from cli.commands.graph import graph
from cli.commands.inbox import inbox, mark, read
from cli.commands.investigations import investigations
from cli.commands.iterations import iteration, iterations
from cli.commands.keys import keys
from cli.commands.migrate import migrate
from cli.commands.run import run
from cli.commands.tail import tail
from cli.commands.top import top
from cli.commands.transfer import export, import_
from cli.commands.try_model import try_model
from cli.commands.up import up
from cli.commands.verify import verify

INSTALLATION: Final = "Installation"
AGENTS: Final = "Agents"
BAD_INPUT: Final = 2
ACCESS: Final = "Who may come in"
HELP: Final = "Agents that keep watch: each builds a knowledge graph for its mission, finds its gaps, and concludes from it."


def main() -> None:
    """Entry of `vigil`: what goes wrong on purpose is told in a line, and no traceback."""
    from shared.errors import VigilError

    try:
        build_app()(prog_name="vigil")
    except VigilError as error:
        _say(error)
        raise SystemExit(getattr(error, "exit_code", 1)) from None
    except UnicodeEncodeError as error:
        # An argument of other bytes than UTF-8: Python passes each such byte on as half a character.
        text = error.object[error.start : error.end]
        _say(f"{text.encode('utf-8', 'backslashreplace').decode()}: an argument is not valid UTF-8")
        raise SystemExit(BAD_INPUT) from None
    except BrokenPipeError:
        # Whoever read us (`| head`) has seen enough.
        sys.stdout = None
        raise SystemExit(0) from None


def build_app() -> typer.Typer:
    app = _group("vigil", HELP)
    app.callback()(_options)
    for of_installation in (up, demo, try_model, doctor, migrate, keys):
        app.command(rich_help_panel=INSTALLATION)(of_installation)
    agents = _group("agent", "Make agents, look at them, change, pause, resume and delete them.")
    agents.command("list")(agent.list_all)
    for order in (agent.create, agent.show, agent.edit, agent.pause, agent.resume, agent.delete):
        agents.command()(order)
    for of_configuration in (configuring.configure, configuring.prompts, configuring.types):
        agents.command()(of_configuration)
    app.add_typer(agents, name="agent", rich_help_panel=AGENTS)
    for of_agents in (run, chat, tail, top, graph, iterations, iteration, analyses, advice):
        app.command(rich_help_panel=AGENTS)(of_agents)
    for of_knowledge in (investigations, verify, export):
        app.command(rich_help_panel=AGENTS)(of_knowledge)
    app.command("import", rich_help_panel=AGENTS)(import_)
    for of_spending in (costs, budget):
        app.command(rich_help_panel=AGENTS)(of_spending)
    memories = _group("memory", "What an agent remembers of what you told it.")
    memories.command("list")(memory.list_all)
    for of_memories in (memory.add, memory.forget):
        memories.command()(of_memories)
    app.add_typer(memories, name="memory", rich_help_panel=AGENTS)
    sources = _group("source", "The pages that an agent has read, and those that are not believed.")
    sources.command("list")(source.list_all)
    for of_sources in (source.show, source.retract, source.restore, source.retractions):
        sources.command()(of_sources)
    app.add_typer(sources, name="source", rich_help_panel=AGENTS)
    nodes = _group("node", "Nodes that are one thing: find them, make them one, undo it.")
    for of_nodes in (node.doubles, node.merge, node.merges, node.unmerge):
        nodes.command()(of_nodes)
    app.add_typer(nodes, name="node", rich_help_panel=AGENTS)
    # Without a subcommand it lists.
    items = _Commands(add_completion=False, rich_markup_mode="markdown")
    items.callback(invoke_without_command=True)(with_credentials(inbox))
    for of_items in (read, mark):
        items.command()(of_items)
    app.add_typer(items, name="inbox", rich_help_panel=AGENTS)
    app.add_typer(_destinations(), name="destination", rich_help_panel=AGENTS)
    letters = _group("dead-letters", "What could not be handled: look at it, retry or discard it.")
    letters.command("list")(dead_letters.list_all)
    for of_letters in (dead_letters.show, dead_letters.retry, dead_letters.discard):
        letters.command()(of_letters)
    app.add_typer(letters, name="dead-letters", rich_help_panel=INSTALLATION)
    for to_come_in in (access.login, access.logout, access.whoami, access.sign_in_link):
        app.command(rich_help_panel=ACCESS)(to_come_in)
    tokens = _group("token", "Tokens, by which programs come in: make, list and revoke them.")
    tokens.command("list")(token.list_all)
    for of_tokens in (token.create, token.revoke):
        tokens.command()(of_tokens)
    app.add_typer(tokens, name="token", rich_help_panel=ACCESS)
    users = _group("user", "Users of the installation, for operators.")
    users.command("list")(user.list_all)
    for of_users in (user.add, user.disable, user.enable, user.remove):
        users.command()(of_users)
    app.add_typer(users, name="user", rich_help_panel=ACCESS)
    return app


def _destinations() -> typer.Typer:
    told = "Have advice sent to webhooks and mail addresses, besides the inbox."
    group = _group("destination", told)
    group.command("list")(destination.list_all)
    group.command("test")(destination.try_out)
    group.command("rotate-secret")(destination.rotate_secret)
    for order in (
        destination.add,
        destination.show,
        destination.pause,
        destination.resume,
        destination.retry,
        destination.remove,
    ):
        group.command()(order)
    return group


class _Commands(typer.Typer):
    """Whose commands take what it takes to come in at an api, where they speak to one."""

    def command(self, *named: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().command(*named, **options)
        return lambda command: register(with_credentials(command))


def _group(name: str, told: str) -> typer.Typer:
    return _Commands(
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

    from cli.render.console import err

    err().print(f"[bad]vigil:[/] {escape(str(error))}", soft_wrap=True)
