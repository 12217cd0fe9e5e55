"""`vigil token …`: what programs come in by."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AsJson, Data, Database, Url

NEVER = "never"
MOST_DIGITS = 6


def create(
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
        str, typer.Option(metavar="DAYS", help="How long it works: 30d, 1d, or `never`.")
    ] = "90d",
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --database: whose; else the installation's owner's."
        ),
    ] = None,
    database: Database = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Make a token and print it, this once: only its digest is kept."""
    from datetime import timedelta

    from cli.errors import BadInputError
    from cli.render.console import print_json

    days = _days(expires)
    _check_scopes(scope or [])
    if user is not None and not database:
        raise BadInputError("--user goes with --database: by the api you make tokens of your own")
    if database:
        from cli.direct import create_token

        lifetime = None if days is None else timedelta(days=days)
        made = create_token(user, name, scopes=scope or [], lifetime=lifetime, data=data)
    else:
        from cli.access_client import AccessClient
        from cli.config.discovery import api_url

        with AccessClient(api_url(url, data)) as client:
            made = client.create_token(
                name, scopes=scope or [], expires_in_days=NEVER if days is None else days
            )
    if as_json:
        print_json(made)
    else:
        typer.echo(made.token)


def list_all(as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """List your tokens, the newest first."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url
    from cli.render.accounts import show_tokens
    from cli.render.console import out, print_json

    with AccessClient(api_url(url, data)) as client:
        tokens = client.tokens()
    if as_json:
        print_json(tokens)
    else:
        show_tokens(out(), tokens)


def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id or name, or the beginning of its id.")
    ],
    url: Url = None,
    data: Data = None,
) -> None:
    """Revoke a token, at once and for good."""
    from cli.access_client import AccessClient
    from cli.config.discovery import api_url

    with AccessClient(api_url(url, data)) as client:
        found = _one(token_id, {token.id: token.name for token in client.tokens()})
        client.revoke_token(found)
    typer.echo(f"{token_id} is revoked.")


def _one(reference: str, names: dict[UUID, str]) -> UUID:
    from cli.errors import BadInputError

    found = [
        each for each, name in names.items() if name == reference or str(each).startswith(reference)
    ]
    if len(found) != 1:
        how_many = "no token" if not found else f"{len(found)} tokens"
        raise BadInputError(f"{how_many} of yours answer to {reference!r}: see `vigil token list`")
    return found[0]


def _days(written: str) -> int | None:
    """None: never."""
    from cli.errors import BadInputError

    if written == NEVER:
        return None
    number = written.removesuffix("d")
    if not number.isdecimal() or len(number) > MOST_DIGITS or int(number) < 1:
        raise BadInputError(f"--expires {written[:40]}: write days, as in 90d, or never")
    return int(number)


def _check_scopes(scopes: list[str]) -> None:
    from cli.errors import BadInputError
    from shared.enums import AccessScope

    known = [scope.value for scope in AccessScope]
    for scope in scopes:
        if scope not in known:
            raise BadInputError(f"--scope {scope}: there are {', '.join(known)}")
