"""`vigil keys`: the passwords that the parts of a cluster show each other."""

from pathlib import Path
from typing import Annotated

import typer


def keys(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where they are kept.")],
    postgres_password_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where PostgreSQL finds its superuser's password, made too."
        ),
    ] = None,
    routes: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…", help="The nodes of a NATS cluster, with a password for them too."
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Where openai_api_key, tavily_api_key and vigil_smtp_url lie, to be handed to the services that use "
            "them, and ca.pem, nats.pem, nats.key, postgres.pem and postgres.key, where TLS is to be spoken.",
        ),
    ] = None,
) -> None:
    """Make a password for each service on NATS and PostgreSQL, and the configuration of NATS's users.

    What is there is kept, so a password of your own may be put into its file before. Run as root, each service's
    files belong to its own uid. No password is ever printed.
    """
    from cli.cluster.keys import Keys, read_certificates

    certificates = read_certificates(given) if given else {}
    keys = Keys(directory)
    made = keys.make(
        postgres_password_file=postgres_password_file,
        routes=[route.strip() for route in routes.split(",")] if routes else [],
        certificates=certificates,
    )
    typer.echo(f"{made} made, the rest kept, in {directory}." if made else "all keys are there.")
    if given is not None:
        handed_on = keys.hand_on(given)
        typer.echo(
            f"handed on: {', '.join(handed_on) or 'no key of a model or of a search service'}."
        )
    if certificates:
        typer.echo("NATS and PostgreSQL have certificates: clients are to ask for TLS.")
