"""`vigil top`: how busy each actor is."""

from typing import Annotated

import typer

from cli.options import AsJson, Data, finite


def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, callback=finite, help="How often to look.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look for one interval, and end.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show each actor's lag, messages in flight, rate, leases and replicas, live until Ctrl-C.

    With --json one JSON object is printed for each look.
    """
    import asyncio
    from contextlib import suppress

    from cli.topping import Top

    with suppress(KeyboardInterrupt):
        asyncio.run(Top(every_seconds=every, once=once, data=data, as_json=as_json).run())
