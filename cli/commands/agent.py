"""`vigil agent …`: make agents, look at them, change, pause, resume and delete them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.client.target import Address
from cli.options import AgentName, AsJson, Data, Url, Wait

if TYPE_CHECKING:
    from shared.schemas.base import AgentDetails

FeedbackRounds = Annotated[
    int | None,
    typer.Option(
        "--feedback-rounds",
        min=0,
        max=2,
        help="How often an iteration may look for what its Analyzers lacked, and ask them again.",
    ),
]


def create(
    mission: Annotated[
        str,
        typer.Argument(
            metavar="MISSION", help="What to watch, and to what end, in a sentence or more."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Its name.", show_default="made of the mission")
    ] = None,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="How often it runs: 30s, 5m, 2h, 1d.")
    ] = "5m",
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="PHASE=NAME", help="A model for one phase; may be repeated."),
    ] = None,
    feedback_rounds: FeedbackRounds = None,
    wait: Wait = True,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Make an agent: its prompts and types are made of the mission; then it runs, and again at its interval."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.config.durations import seconds_of
    from cli.watching.configuring import tell_made

    seconds, models = seconds_of(interval), _models(model or [])
    with Client(api_url(url, data)) as client:
        agent = client.create_agent(
            mission,
            name=name,
            interval_seconds=seconds,
            models=models,
            feedback_rounds=feedback_rounds,
        )
        tell_made(client, agent, wait=wait, as_json=as_json)


def list_all(
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="running, waiting or paused ones only."),
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="WORDS", help="With these words in the name only.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List the agents, and how they are doing."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.agents import show_agents
    from cli.render.console import out, print_json

    with Client(api_url(url, data)) as client:
        agents = list(client.agents(state=state, search=search))
    if as_json:
        print_json(agents)
    else:
        show_agents(out(), agents)


def show(agent: AgentName, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Show an agent: its rhythm, what it knows, its last iteration, and any trouble it has."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.agents import show_agent
    from cli.render.console import out, print_json

    with Client(api_url(url, data)) as client:
        details = client.agent(agent)
        if as_json:
            print_json(details)
            return
        counts = client.graph(agent, limit=0).counts
        show_agent(out(), details, counts, client.calls(agent).totals)


def edit(
    agent: AgentName,
    name: Annotated[str | None, typer.Option(help="Its new name.")] = None,
    interval: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often it runs: 30s, 5m, 2h, 1d.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PHASE=NAME",
            help="A model for one phase; `PHASE=` takes the installation's again. May be repeated.",
        ),
    ] = None,
    feedback_rounds: FeedbackRounds = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Change an agent: its name, how often it runs, its models, its rounds. What is not given stays."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.config.durations import seconds_of
    from cli.errors import BadInputError
    from cli.render.console import print_json

    if name is None and interval is None and feedback_rounds is None and not model:
        raise BadInputError("say what to change: --name, --interval, --model or --feedback-rounds")
    seconds = seconds_of(interval) if interval is not None else None
    models = _models(model or [], may_be_none=True)

    def changes_of(found: "AgentDetails") -> dict[str, Any]:
        named = {phase: each for phase, each in (found.models | models).items() if each}
        wanted = {
            "name": name,
            "interval_seconds": seconds,
            "models": named if models else None,
            "feedback_rounds": feedback_rounds,
        }
        return {key: value for key, value in wanted.items() if value is not None}

    with Client(api_url(url, data)) as client:
        changed = client.change_agent(agent, changes_of)
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"{changed.name} is changed.")


def pause(agent: AgentName, url: Url = None, data: Data = None) -> None:
    """Pause an agent: no iteration is started any more; one that runs is let end."""
    _order(agent, "pause", "is paused; an iteration that runs is let end", url, data)


def resume(agent: AgentName, url: Url = None, data: Data = None) -> None:
    """Let a paused agent run again."""
    _order(agent, "resume", "runs again", url, data)


def delete(
    agent: AgentName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Delete an agent with all that it knows."""
    from cli.client.client import Client
    from cli.config.discovery import api_url

    with Client(api_url(url, data)) as client:
        found = client.agent(agent)
        if not yes:
            counts = client.graph(str(found.id), limit=0).counts
            typer.confirm(
                f"Delete {found.name!r} with its {counts.nodes} nodes and {counts.edges} edges?",
                abort=True,
            )
        client.delete_agent(str(found.id))
    typer.echo(f"{found.name} is deleted.")


def _order(agent: str, order: str, told: str, url: Address | None, data: Path | None) -> None:
    from cli.client.client import Client
    from cli.config.discovery import api_url

    with Client(api_url(url, data)) as client:
        name = client.order(agent, order).name
    typer.echo(f"{name} {told}.")


def _models(given: list[str], *, may_be_none: bool = False) -> dict[str, str]:
    from cli.errors import BadInputError

    models = {}
    for each in given:
        phase, equals, name = each.partition("=")
        if not (phase and equals and (name or may_be_none)):
            raise BadInputError(f"--model {each}: write PHASE=NAME, as in observer=gpt-5.4")
        models[phase.strip().replace("-", "_")] = name.strip()
    return models
