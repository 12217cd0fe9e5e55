"""`vigil migrate`: tables, roles, owner, stream and consumers."""

from typing import Annotated

import typer

from cli.options import Data, finite


def migrate(
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", callback=finite, help="How long to wait for PostgreSQL and NATS."
        ),
    ] = 60,
    data: Data = None,
) -> None:
    """Make the tables, the owner, the stream and its consumers, or bring them up to date.

    Works on VIGIL_DATABASE_URL and VIGIL_NATS_URL, for installations that `vigil up` does not run, and else on the one
    that runs on the data directory, for which `vigil up` does the same when it starts. Where VIGIL_KEYS_DIR names what
    `vigil keys` has made, each actor also gets its PostgreSQL role, with the rights that it needs and no others.
    """
    import asyncio

    from cli.cluster.provision import provisioned
    from cli.config.discovery import engine_settings
    from shared.runtime.identity import MIGRATE

    settings = engine_settings(MIGRATE, data)
    asyncio.run(provisioned(settings, wait))
    roles = ", roles" if settings.keys_dir else ""
    typer.echo(f"tables{roles}, owner, stream and consumers are up to date.")
