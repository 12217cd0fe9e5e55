"""`vigil login`, `logout`, `whoami`, `sign-in-link`, `token …` and `user …`: credentials and users."""

from datetime import timedelta
from typing import Annotated, Final

import typer

from cli.client.client import Client
from cli.client.http import url_path
from cli.client.target import Address, Api, prompt_token
from cli.command import Result, api_command, command_group, print_result
from cli.config.discovery import api_url
from cli.config.profiles import DEFAULT, Profile, Profiles
from cli.errors import BadInputError
from cli.options import AsJson, Data, Database, Token, Url, Yes
from cli.options import Profile as ProfileName
from cli.prompts import confirm
from cli.references import Named, as_uuid, find
from cli.render.accounts import show_me, show_tokens, show_users
from shared.enums import AccessScope
from shared.schemas.accounts import NewTokenResponse, TokenResponse, UserResponse

NEVER: Final = "never"
MAX_DAYS_DIGITS: Final = 6

token_commands = command_group("token", "Create, list and revoke API tokens for programs.")
user_commands = command_group("user", "Manage the users of the installation (operators only).")

UserName = Annotated[
    str, typer.Argument(metavar="USER", help="Name, id or email address of the user.")
]


def login(
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
    token: Token = None,
    profile_name: ProfileName = None,
) -> None:
    """Save an installation and your token as a profile for later commands.

    Asks for the token if --token is not given. It is stored in ~/.config/vigil/profiles.json, which only you can read.
    --profile names the installation, if you use several.
    """
    address = Address(url, token, profile_name)
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
        typer.Option(
            "--profile", metavar="NAME", help="Profile to remove.", show_default="default"
        ),
    ] = None,
) -> None:
    """Remove a saved profile. Its token stays valid until you revoke it with `vigil token revoke`."""
    profiles = Profiles.read()
    name = profile or DEFAULT
    profiles.named(name)
    profiles.without(name).write()
    typer.echo(f"Removed the profile {name}.")


@api_command
def whoami(client: Client) -> Result:
    """Show the current installation, your user and the scopes of your token."""
    me = client.me()
    return Result(me, lambda console, _: show_me(console, me, client.url, client.providers()))


@api_command
def sign_in_link(
    client: Client,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Create the link for another user (operators only)."),
    ] = None,
    database: Database = False,
    data: Data = None,
) -> Result:
    """Print a one-time link that signs in a browser. It expires after 15 minutes."""
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
    tokens = list(client.pages(TokenResponse, "/tokens"))
    return Result(tokens, show_tokens)


@token_commands.command("create")
@api_command
def create_token(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the token is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="What the token allows: read, write or operator. Repeat for several scopes.",
            show_default="read and write",
        ),
    ] = None,
    expires: Annotated[
        str,
        typer.Option(
            metavar="DAYS", help="How long the token is valid, for example 30d, or `never`."
        ),
    ] = "90d",
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --database, the user who will own the token.",
            show_default="the installation's owner",
        ),
    ] = None,
    database: Database = False,
    data: Data = None,
) -> Result:
    """Create a token and print it. Save it now: only its digest is stored, so it cannot be shown again."""
    days = _parse_days(expires)
    _check_scopes(scope or [])
    if user is not None and not database:
        raise BadInputError(
            "--user requires --database, because the API creates tokens only for yourself"
        )
    if database:
        from cli import database_access

        lifetime = None if days is None else timedelta(days=days)
        token = database_access.create_token(
            user, name, scopes=scope or [], lifetime=lifetime, data=data
        )
    else:
        body: dict[str, object] = {"name": name, "expires_in_days": NEVER if days is None else days}
        body |= {"scopes": scope} if scope else {}
        token = client.post(NewTokenResponse, "/tokens", body)
    return Result(token, token.token)


@token_commands.command("revoke")
@api_command
def revoke_token(
    client: Client,
    token_name: Annotated[str, typer.Argument(metavar="TOKEN", help="Name or id of the token.")],
) -> None:
    """Revoke a token immediately and permanently."""
    found = find(
        "token",
        token_name,
        client.pages(TokenResponse, "/tokens"),
        lambda each: Named(each.id, [each.name]),
        see="vigil token list",
    )
    client.delete(url_path("tokens", found.id))
    typer.echo(f"Revoked the token {found.name}.")


@user_commands.command("list")
@api_command
def list_users(client: Client) -> Result:
    """List the users of the installation."""
    users = list(client.pages(UserResponse, "/users"))
    return Result(users, show_users)


@user_commands.command("add")
@api_command
def add_user(
    client: Client,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the user: lowercase letters, digits, dots, hyphens and underscores.",
        ),
    ],
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Email address for sign-in links.")
    ] = None,
    operator: Annotated[
        bool,
        typer.Option("--operator", help="Make the user an operator, with the same rights as you."),
    ] = False,
) -> Result:
    """Add a user. To let them sign in, create a link with `vigil sign-in-link --user NAME`."""
    user = client.post(UserResponse, "/users", {"name": name, "email": email, "operator": operator})
    return Result(
        user,
        f"Added the user {user.name}. Create a sign-in link with `vigil sign-in-link --user {user.name}`.",
    )


@user_commands.command("disable")
@api_command
def disable_user(client: Client, user: UserName) -> Result:
    """Deny a user access. Their data is kept and their agents continue to run."""
    account = client.post(UserResponse, url_path("users", find_user(client, user), "disable"))
    return Result(account, f"{account.name} can no longer sign in.")


@user_commands.command("enable")
@api_command
def enable_user(client: Client, user: UserName) -> Result:
    """Restore access for a disabled user."""
    account = client.post(UserResponse, url_path("users", find_user(client, user), "enable"))
    return Result(account, f"{account.name} can sign in again.")


@user_commands.command("remove")
@api_command
def remove_user(client: Client, user: UserName, yes: Yes = False) -> None:
    """Remove a user with all of their agents and the agents' data."""
    account = client.get(UserResponse, url_path("users", find_user(client, user)))
    if not yes:
        confirm(f"Remove {account.name} with all of their agents?")
    client.delete(url_path("users", account.id))
    typer.echo(f"Removed {account.name}.")


def find_user(client: Client, reference: str) -> str:
    """The id of the user, by name, email address or id. Raises CommandError."""
    if as_uuid(reference) is not None:
        return reference
    found = find(
        "user",
        reference,
        list(client.pages(UserResponse, "/users")),
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
        raise BadInputError(f"--expires {text[:40]}: enter a number of days, such as 90d, or never")
    return int(number)


def _check_scopes(scopes: list[str]) -> None:
    valid = [scope.value for scope in AccessScope]
    for scope in scopes:
        if scope not in valid:
            raise BadInputError(f"--scope {scope}: choose from {', '.join(valid)}")
