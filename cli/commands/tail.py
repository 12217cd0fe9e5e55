"""`vigil tail`: what is told on the bus."""

from typing import Annotated

import typer

from cli.options import Data, Url


def tail(
    pattern: Annotated[
        str,
        typer.Argument(help="Which events: analysis, 'query.*', '*.failed'.", show_default="all"),
    ] = ">",
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Of one agent only.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin so long ago: 10m, 2h, 1d.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest event that is kept.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, as it was sent.")
    ] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Follow the events of the bus, from now or from any point of its history, until Ctrl-C.

    With --url the api of that installation tells them, across every break of the connection.
    """
    from contextlib import suppress

    from cli.config.durations import seconds_of
    from cli.tailing import Tail, subject_pattern

    wanted = Tail(
        pattern=subject_pattern(pattern),
        agent=agent,
        since_seconds=seconds_of(since) if since else None,
        from_start=from_start,
        as_json=as_json,
        url=url,
        data=data,
    )
    with suppress(KeyboardInterrupt):
        wanted.run()
