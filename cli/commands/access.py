"""`vigil login`, `logout`, `whoami`, `sign-in-link`: coming in at an installation."""

from typing import Annotated

import typer

from cli.options import AsJson, Data, Database, Url


def login(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Save an installation and the token by which you come in there, for all commands that follow.

    Without --token you are asked for it. It is kept in ~/.config/vigil/profiles.json, for your eyes only; --profile gives
    it a name, where there are several.
    """
    from cli.access_client import AccessClient
    from cli.client.target import Address, Api, asked_token
    from cli.config.discovery import api_url
    from cli.config.profiles import DEFAULT, Profile, Profiles
    from cli.render.console import print_json

    named = url or Address()
    saved = Profiles.read()
    name = named.profile or DEFAULT
    known = saved.profiles.get(name)
    where = named.url or (known.url if known else api_url(Address(), data).url)
    api = Api(where.rstrip("/"), asked_token(named))
    with AccessClient(api) as client:
        me = client.me()
    assert api.token is not None
    saved.with_profile(name, Profile(url=api.url, token=api.token)).write()
    if as_json:
        print_json(me)
    else:
        typer.echo(f"You are {me.user.name} at {api.url}; saved as the profile {name}.")


def logout(
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Which; else the usual one.")
    ] = None,
) -> None:
    """Forget a saved installation. Its token goes on working: `vigil token revoke` ends that."""
    from cli.config.profiles import DEFAULT, Profiles

    saved = Profiles.read()
    name = profile or DEFAULT
    saved.named(name)
    saved.without(name).write()
    typer.echo(f"The profile {name} is forgotten.")


def whoami(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Show where you come in, as whom, and what that allows."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url
    from cli.render.accounts import show_me
    from cli.render.console import out, print_json

    api = api_url(url, data)
    with AccessClient(api) as client:
        me = client.me()
    if as_json:
        print_json(me)
    else:
        show_me(out(), me, api.url)


def sign_in_link(
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For another user, where you are an operator."),
    ] = None,
    database: Database = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Print a link that signs a browser in, once, within 15 minutes."""
    from cli.render.console import print_json

    if database:
        from cli.direct import make_link

        link = make_link(user, data)
    else:
        from cli.access_client import AccessClient
        from cli.config.discovery import api_url

        with AccessClient(api_url(url, data)) as client:
            link = client.make_link(user)
    if as_json:
        print_json(link)
    else:
        typer.echo(link.url)
