"""`vigil user …`: who may come in at all, for operators."""

from typing import Annotated

import typer

from cli.options import AsJson, Data, Url

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name, id or mail address.")]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits, . - and _.")],
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where sign-in links are mailed to.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Looks after the installation, as you do.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Add a user, who comes in first by a sign-in link: `vigil sign-in-link --user NAME` makes one."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url
    from cli.render.console import print_json

    with AccessClient(api_url(url, data)) as client:
        made = client.add_user(name, email=email, operator=operator)
    if as_json:
        print_json(made)
    else:
        typer.echo(f"{made.name} is added. `vigil sign-in-link --user {made.name}` lets them in.")


def list_all(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """List the users."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url
    from cli.render.accounts import show_users
    from cli.render.console import out, print_json

    with AccessClient(api_url(url, data)) as client:
        users = client.users()
    if as_json:
        print_json(users)
    else:
        show_users(out(), users)


def disable(user: UserName, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Let a user in no more, from now on. What belongs to them stays, and their agents go on."""
    _order(user, "disable", "may not come in any more", as_json, url, data)


def enable(user: UserName, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Let a disabled user in again."""
    _order(user, "enable", "may come in again", as_json, url, data)


def remove(
    user: UserName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Remove a user with every agent of theirs, and all that these know."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url

    with AccessClient(api_url(url, data)) as client:
        found = client.user(user)
        if not yes:
            typer.confirm(f"Remove {found.name} with all of their agents?", abort=True)
        client.remove_user(str(found.id))
    typer.echo(f"{found.name} is removed.")


def _order(user: str, order: str, told: str, as_json: bool, url: Url, data: Data) -> None:
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url
    from cli.render.console import print_json

    with AccessClient(api_url(url, data)) as client:
        changed = client.order_user(user, order)
    if as_json:
        print_json(changed)
    else:
        typer.echo(f"{changed.name} {told}.")
