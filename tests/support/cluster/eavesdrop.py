"""Run in a researcher's container: connect to NATS and PostgreSQL with a valid password, but without TLS or without
verifying the server; print the results."""

import asyncio
import json
import socket
import ssl
from typing import Any

import nats
import psycopg

from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.settings import Settings

ME = "researcher"
DONE = "done"
PATIENCE_SECONDS = 20.0


async def in_plain_text(settings: Settings) -> str:
    """NATS's response to a client that does not use TLS; a server without TLS would send INFO first."""
    credentials = build_nats_credentials(settings, ME)
    login = {"user": credentials.user, "pass": credentials.password, "verbose": False}
    reader, writer = await asyncio.open_connection("nats", 4222)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            writer.write(f"CONNECT {json.dumps(login)}\r\nPING\r\n".encode())
            return (await reader.readline()).decode().strip() or "the connection is ended"
    finally:
        writer.close()


async def to_nats(**options: Any) -> str:
    errors: list[Exception] = []

    async def record_error(error: Exception) -> None:
        errors.append(error)

    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            client = await nats.connect(allow_reconnect=False, error_cb=record_error, **options)
        await client.close()
    except (OSError, nats.errors.Error) as error:
        return f"{error!r} {errors}"
    return DONE


def to_postgres(url: str, **options: str) -> str:
    try:
        psycopg.connect(url, **options).close()  # type: ignore[arg-type]  # libpq's options
    except psycopg.OperationalError as error:
        return str(error)
    return DONE


async def main() -> None:
    settings = Settings()
    options = build_nats_credentials(settings, ME).options()
    options_without_ca = options | {"tls": ssl.create_default_context()}
    nats_address, postgres_address = map(socket.gethostbyname, ("nats", "postgres"))
    url = build_database_url(settings, ME)
    results = {
        "nats as it should be": await to_nats(servers="tls://nats:4222", **options),
        "nats in plain text": await in_plain_text(settings),
        "nats without the CA": await to_nats(servers="tls://nats:4222", **options_without_ca),
        "nats by another name": await to_nats(servers=f"tls://{nats_address}:4222", **options),
        "postgres as it should be": to_postgres(url),
        "postgres in plain text": to_postgres(url, sslmode="disable"),
        "postgres without the CA": to_postgres(url, sslrootcert="system"),
        "postgres by another name": to_postgres(url, host=postgres_address),
    }
    print(json.dumps(results))


asyncio.run(main())
