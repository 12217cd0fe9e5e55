"""`vigil budget`: what may be spent in a day."""

from typing import Annotated

import typer

from cli.options import AsJson, Data, Url, finite


def budget(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Name or id of the agent.")
    ] = None,
    of_installation: Annotated[
        bool, typer.Option("--installation", help="Of all agents together, in place of one.")
    ] = False,
    usd: Annotated[
        float | None,
        typer.Option(
            "--usd", min=0, callback=finite, metavar="USD", help="Set the cap in USD a day."
        ),
    ] = None,
    calls: Annotated[
        int | None, typer.Option("--calls", min=0, metavar="N", help="Set the cap in calls a day.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Take the caps away.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show or set what an agent, or the whole installation, may spend in a day (UTC).

    A cap that is not named stays as it is. An agent that has used its budget up rests until the next day, or until it is
    raised.
    """
    from cli.budgeting import Wish, told_budget
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.costs import show_budget

    wish = Wish.of(agent, of_installation=of_installation, usd=usd, calls=calls, none=none)
    with Client(api_url(url, data)) as client:
        told = told_budget(client, wish)
    if as_json:
        print_json(told)
    else:
        show_budget(out(), told)
