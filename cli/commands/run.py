"""`vigil run`: an iteration now."""

from typing import Annotated

import typer

from cli.options import AgentName, Data, Url, finite


def run(
    agent: AgentName,
    wait: Annotated[
        bool, typer.Option("--wait", help="Watch the iteration until it ends.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1, callback=finite, help="Seconds to wait at most.")
    ] = 1800,
    url: Url = None,
    data: Data = None,
) -> None:
    """Ask an agent for an iteration now. With --wait the exit code is 0 only when it completed."""
    import time

    from cli.client.client import Client
    from cli.config.discovery import api_url, nats_or_none
    from cli.errors import CommandError
    from cli.render.console import out
    from cli.watching.narrator import Narrator
    from cli.watching.nudges import Nudges
    from cli.watching.watch import Watch

    console = out()
    with Client(api_url(url, data)) as client:
        asked = client.order(agent, "run")
        if not wait:
            typer.echo(f"{asked.name} runs iteration {asked.iterations_started + 1} next.")
            return
        with Nudges(nats_or_none(data)) as nudges:
            watch = Watch(client, nudges, Narrator(console), time.monotonic() + timeout)
            ended = watch.iteration(asked.id, asked.iterations_started + 1)
    if ended is None:
        raise CommandError(
            f"the iteration has not ended after {timeout:.0f} s; it goes on without us"
        )
    if ended.status != "completed":
        raise typer.Exit(1)
