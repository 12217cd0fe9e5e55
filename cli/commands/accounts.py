"""`vigil login`, `logout`, `whoami`, `sign-in-link`, `token …` and `user …`: credentials and users."""

from datetime import timedelta
from typing import Annotated, Final

import typer

from cli.client.client import Client
from cli.client.target import Address, Api, prompt_token
from cli.command import Result, api_command, command_group, print_result
from cli.config.discovery import api_url
from cli.config.profiles import DEFAULT, Profile, Profiles
from cli.errors import BadInputError
from cli.options import AsJson, Data, Database, Url, Yes
from cli.prompts import confirm
from cli.references import Named, as_uuid, find
from cli.render.accounts import show_me, show_tokens, show_users
from shared.enums import AccessScope

NEVER: Final = "never"
MAX_DAYS_DIGITS: Final = 6

token_commands = command_group("token", "API tokens for programs: create, list and revoke them.")
user_commands = command_group("user", "Users of the installation, for operators.")

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name, id or mail address.")]


def login(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Save an installation and your token for it, for later commands.

    Asks for the token if --token is not given. It is stored in ~/.config/vigil/profiles.json, which only you can read.
    --profile names the installation, if you use several.
    """
    address = url or Address()
    profiles = Profiles.read()
    name = address.profile or DEFAULT
    profile = profiles.profiles.get(name)
    api_address = address.url or (profile.url if profile else api_url(Address(), data).url)
    api = Api(api_address.rstrip("/"), prompt_token(address))
    with Client(api) as client:
        me = client.me()
    assert api.token is not None
    profiles.with_profile(name, Profile(url=api.url, token=api.token)).write()
    text = f"You are {me.user.name} at {api.url}; saved as the profile {name}."
    print_result(Result(me, text), as_json=as_json)


def logout(
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="Which one.", show_default="default"),
    ] = None,
) -> None:
    """Remove a saved installation. Its token stays valid until `vigil token revoke`."""
    profiles = Profiles.read()
    name = profile or DEFAULT
    profiles.named(name)
    profiles.without(name).write()
    typer.echo(f"The profile {name} is removed.")


@api_command
def whoami(client: Client) -> Result:
    """Show the installation, your user and what your token allows."""
    me = client.me()
    return Result(me, lambda console: show_me(console, me, client.url, client.providers()))


@api_command
def sign_in_link(
    client: Client,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For another user, if you are an operator."),
    ] = None,
    database: Database = False,
    data: Data = None,
) -> Result:
    """Print a link that signs a browser in, once, within 15 minutes."""
    if database:
        from cli import database_access

        link = database_access.create_link(user, data)
    else:
        link = client.make_link(user and find_user(client, user))
    return Result(link, link.url)


@token_commands.command("list")
@api_command
def list_tokens(client: Client) -> Result:
    """List your tokens, newest first."""
    tokens = client.tokens()
    return Result(tokens, lambda console: show_tokens(console, tokens))


@token_commands.command("create")
@api_command
def create_token(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="What it allows: read, write, operator; may be repeated.",
            show_default="read and write",
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="DAYS", help="How long it is valid: 30d, 1d, or `never`.")
    ] = "90d",
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --database: the token's user.",
            show_default="the installation's owner",
        ),
    ] = None,
    database: Database = False,
    data: Data = None,
) -> Result:
    """Create a token and print it. It is shown only now: the database stores its digest."""
    days = _parse_days(expires)
    _check_scopes(scope or [])
    if user is not None and not database:
        raise BadInputError("--user needs --database: the API only creates tokens of your own")
    if database:
        from cli import database_access

        lifetime = None if days is None else timedelta(days=days)
        token = database_access.create_token(
            user, name, scopes=scope or [], lifetime=lifetime, data=data
        )
    else:
        token = client.create_token(
            name, scopes=scope or [], expires_in_days=NEVER if days is None else days
        )
    return Result(token, token.token)


@token_commands.command("revoke")
@api_command
def revoke_token(
    client: Client,
    token_name: Annotated[str, typer.Argument(metavar="TOKEN", help="Its name or id.")],
) -> None:
    """Revoke a token, immediately and for good."""
    found = find(
        "token",
        token_name,
        client.tokens(),
        lambda each: Named(each.id, [each.name]),
        see="vigil token list",
    )
    client.revoke_token(found.id)
    typer.echo(f"The token {found.name} is revoked.")


@user_commands.command("list")
@api_command
def list_users(client: Client) -> Result:
    """List the users."""
    users = client.users()
    return Result(users, lambda console: show_users(console, users))


@user_commands.command("add")
@api_command
def add_user(
    client: Client,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Lower-case letters, digits, . - and _.")
    ],
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where sign-in links are mailed.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="May operate the installation, as you may.")
    ] = False,
) -> Result:
    """Add a user. `vigil sign-in-link --user NAME` creates the link for their first sign-in."""
    user = client.add_user(name, email=email, operator=operator)
    return Result(
        user, f"{user.name} is added. `vigil sign-in-link --user {user.name}` lets them sign in."
    )


@user_commands.command("disable")
@api_command
def disable_user(client: Client, user: UserName) -> Result:
    """Deny a user access from now on. Their data stays, and their agents continue."""
    account = client.order_user(find_user(client, user), "disable")
    return Result(account, f"{account.name} can no longer sign in.")


@user_commands.command("enable")
@api_command
def enable_user(client: Client, user: UserName) -> Result:
    """Give a disabled user access again."""
    account = client.order_user(find_user(client, user), "enable")
    return Result(account, f"{account.name} can sign in again.")


@user_commands.command("remove")
@api_command
def remove_user(client: Client, user: UserName, yes: Yes = False) -> None:
    """Remove a user with all of their agents and those agents' data."""
    account = client.user(find_user(client, user))
    if not yes:
        confirm(f"Remove {account.name} with all of their agents?")
    client.remove_user(str(account.id))
    typer.echo(f"{account.name} is removed.")


def find_user(client: Client, reference: str) -> str:
    """The id of the user, by name, mail address or id. Raises CommandError."""
    if as_uuid(reference) is not None:
        return reference
    found = find(
        "user",
        reference,
        client.users(),
        lambda each: Named(each.id, [each.name, *([each.email] if each.email else [])]),
        see="vigil user list",
    )
    return str(found.id)


def _parse_days(text: str) -> int | None:
    """The number of days; None is never."""
    if text == NEVER:
        return None
    number = text.removesuffix("d")
    if not number.isdecimal() or len(number) > MAX_DAYS_DIGITS or int(number) < 1:
        raise BadInputError(f"--expires {text[:40]}: write days, as in 90d, or never")
    return int(number)


def _check_scopes(scopes: list[str]) -> None:
    valid = [scope.value for scope in AccessScope]
    for scope in scopes:
        if scope not in valid:
            raise BadInputError(f"--scope {scope}: choose from {', '.join(valid)}")
