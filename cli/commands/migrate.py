"""`vigil migrate`: tables, owner, stream and consumers."""

from typing import Annotated

import typer


def migrate(
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for PostgreSQL and NATS.")
    ] = 60,
) -> None:
    """Make the tables, the owner, the stream and its consumers, or bring them up to date.

    Works on VIGIL_DATABASE_URL and VIGIL_NATS_URL, for installations that `vigil up` does not run; it does so itself.
    """
    import asyncio

    from cli.migrating import provisioned
    from cli.outside import read_settings

    settings = read_settings()
    asyncio.run(provisioned(settings, wait))
    typer.echo("tables, owner, stream and consumers are up to date.")
