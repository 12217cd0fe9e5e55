"""`vigil migrate`: tables, roles, owner, stream and consumers."""

from typing import Annotated

import typer


def migrate(
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for PostgreSQL and NATS.")
    ] = 60,
) -> None:
    """Make the tables, the owner, the stream and its consumers, or bring them up to date.

    Works on VIGIL_DATABASE_URL and VIGIL_NATS_URL, for installations that `vigil up` does not run; it does so itself.
    Where VIGIL_KEYS_DIR names what `vigil keys` has made, each actor also gets its PostgreSQL role, with the rights
    that it needs and no others.
    """
    import asyncio

    from cli.migrating import provisioned
    from cli.outside import read_settings

    settings = read_settings()
    asyncio.run(provisioned(settings, wait))
    roles = ", roles" if settings.keys_dir else ""
    typer.echo(f"tables{roles}, owner, stream and consumers are up to date.")
