"""`vigil agent configure`, `prompts` and `types`: what is made of an agent's mission."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url, Wait

if TYPE_CHECKING:
    from cli.client.client import Client

PhaseName = Annotated[
    str | None, typer.Option("--phase", metavar="PHASE", help="The prompt of this phase only.")
]


def configure(
    agent: AgentName,
    mission: Annotated[
        str | None, typer.Option(help="Its new mission.", show_default="the one it has")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE", help="Keep the prompt of this phase; may be repeated."),
    ] = None,
    wait: Wait = True,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Make an agent's prompts and types anew. It goes on with those it has until the new ones are there."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.watching.configuring import tell_made

    kept = [_phase(each) for each in keep or []]
    with Client(api_url(url, data)) as client:
        ordered = client.configure(agent, mission=mission, keep=kept)
        tell_made(client, ordered, wait=wait, as_json=as_json)


def prompts(
    agent: AgentName,
    phase: PhaseName = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Change the prompt of --phase in $EDITOR.")
    ] = False,
    source: Annotated[
        typer.FileText | None,
        typer.Option("--from", help="Take the prompt of --phase from this file; `-` is stdin."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="All that they ever were, the newest first.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an agent's system prompts, what they were before, or change one."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.errors import BadInputError
    from cli.render.agents import show_history, show_prompts
    from cli.render.console import out, print_json

    phase = _phase(phase) if phase else None
    if (edit or source) and phase is None:
        raise BadInputError("say which prompt to change: --phase observer, for instance")
    with Client(api_url(url, data)) as client:
        if history:
            versions = list(client.prompt_history(agent, phase=phase))
            print_json(versions) if as_json else show_history(out(), versions)
            return
        if phase and (edit or source):
            _change(client, agent, phase, source.read() if source else None)
        found = client.prompts(agent)
    shown = [each for each in found.items if phase in (None, each.phase)]
    print_json(shown) if as_json else show_prompts(out(), shown)


def types(agent: AgentName, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Show the types of an agent's nodes and edges, with their properties and an example."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.agents import show_types
    from cli.render.console import out, print_json

    with Client(api_url(url, data)) as client:
        found = client.types(agent)
    print_json(found) if as_json else show_types(out(), found)


def _change(client: "Client", agent: str, phase: str, given: str | None) -> None:
    """Where the change is refused, what was written is kept in a file."""
    import click

    from cli.errors import CommandError

    found = client.prompts(agent)
    before = next((each.prompt for each in found.items if each.phase == phase), None)
    if before is None:
        raise CommandError(f"{agent} has no prompts yet; `vigil agent show` says why")
    written = given if given is not None else click.edit(before, extension=".md")
    if written is None or written.strip() == before:
        typer.echo("Nothing was changed.", err=True)
        return
    try:
        client.edit_prompt(agent, phase, written, version=found.version)
    except CommandError as error:
        raise CommandError(f"{error}{_rescued(written, phase) if given is None else ''}") from error


def _rescued(written: str, phase: str) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile(
        "w", prefix=f"vigil-{phase}-", suffix=".md", delete=False
    ) as file:
        file.write(written)
    return f" What you wrote is in {Path(file.name)}: give it with --from."


def _phase(given: str) -> str:
    from cli.errors import BadInputError
    from shared.enums import PROMPTED

    phase = given.strip().lower().replace("-", "_")
    if phase not in list(PROMPTED):
        raise BadInputError(f"there is no phase {given!r}; there are: {', '.join(PROMPTED)}")
    return phase
