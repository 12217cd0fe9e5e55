"""`vigil destination …`: where advice is sent besides the inbox, by webhook or mail."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.client.target import Address
from cli.options import AsJson, Data, Url

if TYPE_CHECKING:
    from cli.client.client import Client
    from shared.schemas.notifications import DeliveryView, DestinationView

TEST_SECONDS: Final = 30.0
"""An attempt takes ten at most, and a notifier looks every two."""
LOOK_AGAIN_SECONDS: Final = 0.3

Which = Annotated[
    str,
    typer.Argument(metavar="DESTINATION", help="Its address, or its id, or a part of either."),
]


def add(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="A URL (https://…), or a mail address.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Of this agent only.", show_default="all agents"),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Have whatever comes into the inbox from now on sent to a webhook or a mail address too.

    A webhook's secret is shown here once: its receiver checks the signatures by it (standardwebhooks.com).
    """
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_created

    kind = "webhook" if "://" in address else "mail"
    with Client(api_url(url, data)) as client:
        made = client.create_destination(kind, address, agent=agent)
    if as_json:
        print_json(made)
    else:
        show_created(out(), made)


def list_all(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """List the destinations, and how the last delivery to each went."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_destinations

    with Client(api_url(url, data)) as client:
        found = client.destinations()
    if as_json:
        print_json(found)
    else:
        show_destinations(out(), found)


def show(which: Which, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Show a destination and its newest deliveries."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_destination

    with Client(api_url(url, data)) as client:
        found = client.destination(_find(client, which).id)
    if as_json:
        print_json(found)
    else:
        show_destination(out(), found)


def try_out(which: Which, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Make a test delivery, and say what became of it."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_outcome

    with Client(api_url(url, data)) as client:
        tested = _ended(client, client.test_destination(_find(client, which).id))
    if as_json:
        print_json(tested)
    else:
        show_outcome(out(), tested)
    if tested.status != "delivered":
        raise typer.Exit(1)


def pause(which: Which, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Send nothing there, and put nothing aside for it, until it is resumed."""
    _activate(which, False, "gets nothing until it is resumed", as_json, url, data)


def resume(which: Which, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Send there again whatever comes from now on."""
    _activate(which, True, "gets what comes from now on", as_json, url, data)


def rotate_secret(
    which: Which, as_json: AsJson = False, url: Url = None, data: Data = None
) -> None:
    """Give a webhook another secret, shown once; the old one signs beside it for a day."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_secret

    with Client(api_url(url, data)) as client:
        given = client.rotate_secret(_find(client, which).id)
    if as_json:
        print_json(given)
    else:
        show_secret(out(), given)


def retry(which: Which, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Try everything again that could not be delivered there."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import counted, print_json

    with Client(api_url(url, data)) as client:
        failed = client.failed_deliveries(_find(client, which).id)
        asked = [client.retry_delivery(each) for each in failed]
    if as_json:
        print_json(asked)
    else:
        number = counted(len(asked), "delivery").capitalize()
        typer.echo(f"{number} will be tried again." if asked else "No delivery has failed.")


def remove(
    which: Which,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Remove a destination, with the record of its deliveries."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import print_json

    with Client(api_url(url, data)) as client:
        found = _find(client, which)
        if not yes:
            typer.confirm(f"Remove {found.address}?", abort=True)
        client.delete_destination(found.id)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found.address} is removed.")


def _activate(
    which: str, active: bool, told: str, as_json: bool, url: Address | None, data: Path | None
) -> None:
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import print_json

    with Client(api_url(url, data)) as client:
        changed = client.activate_destination(_find(client, which).id, active=active)
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"{changed.address} {told}.")


def _find(client: "Client", which: str) -> "DestinationView":
    """Raises CommandError where it is none, or not the only one."""
    from cli.errors import CommandError

    found = client.destinations()
    exact = [each for each in found if which in (each.address, str(each.id))]
    meant = exact or [
        each for each in found if which in each.address or str(each.id).startswith(which.lower())
    ]
    if not meant:
        raise CommandError(f"there is no destination {which!r}: see `vigil destination list`")
    if len(meant) > 1:
        ids = ", ".join(str(each.id)[:8] for each in meant)
        raise CommandError(
            f"{which!r} is a part of several destinations: name one by its id: {ids}"
        )
    return meant[0]


def _ended(client: "Client", delivery: "DeliveryView") -> "DeliveryView":
    """The delivery once it has ended, or as it is when nobody has taken it up for long."""
    import time

    deadline = time.monotonic() + TEST_SECONDS
    while delivery.status == "pending" and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_SECONDS)
        delivery = client.delivery(delivery)
    return delivery
