"""Run in a researcher's container, with its credentials: try to access what it may not, and print the results."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import psycopg
from nats.errors import Error as NatsError

from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.settings import Settings

ME = "researcher"
STATEMENTS = {
    "looks at its agent": "select count(*) from agents",
    "writes advice": "insert into graph_nodes (id, agent_id, type, name, properties)"
    " values (gen_random_uuid(), gen_random_uuid(), 'AgentAdvice', 'Buy', '{}')",
    "fills the inbox": "insert into inbox_items (id) values (gen_random_uuid())",
    "reads tokens": "select * from api_tokens",
    "changes an agent": "update agents set mission = 'mine'",
    "makes a table": "create table mine (id int)",
}
DENIED = "denied"
DONE = "done"


async def on_the_bus(settings: Settings) -> dict[str, str]:
    errors: list[str] = []

    async def record_error(error: Exception) -> None:
        errors.append(str(error))

    client = await nats.connect(
        settings.nats_url, error_cb=record_error, **build_nats_credentials(settings, ME).options()
    )
    jetstream = client.jetstream(timeout=1)
    attempts: dict[str, Callable[[], Awaitable[object]]] = {
        "sees its consumer": lambda: jetstream.consumer_info("VIGIL", ME),
        "tells of an analysis": lambda: jetstream.publish("analysis.produced", b"{}"),
        "sees another's consumer": lambda: jetstream.consumer_info("VIGIL", "adviser"),
        "deletes the stream": lambda: jetstream.delete_stream("VIGIL"),
    }
    results = {}
    for name, attempt in attempts.items():
        errors.clear()
        try:
            await attempt()
            results[name] = DONE
        except (NatsError, TimeoutError):
            violated = any("permissions violation" in message.lower() for message in errors)
            results[name] = DENIED if violated else f"failed otherwise: {errors}"
    await client.close()
    return results


def in_the_database(settings: Settings) -> dict[str, str]:
    results = {}
    with psycopg.connect(build_database_url(settings, ME), autocommit=True) as connection:
        for name, statement in STATEMENTS.items():
            try:
                connection.execute(statement)
                results[name] = DONE
            except psycopg.errors.InsufficientPrivilege:
                results[name] = DENIED
            except psycopg.Error as error:
                results[name] = f"failed otherwise: {error!r}"
    return results


def in_the_files() -> dict[str, str]:
    attempts: dict[str, Callable[[], object]] = {
        "reads its key": lambda: Path("/run/vigil/keys/researcher/vigil_nats_password").read_text(),
        "reads the api's key": lambda: Path("/run/vigil/keys/api/vigil_nats_password").read_text(),
        "writes into the image": lambda: Path("/opt/vigil/mine").write_text("mine"),
    }
    results = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            results[name] = DONE
        except OSError:
            results[name] = DENIED
    return results


settings = Settings()
print(
    json.dumps({**asyncio.run(on_the_bus(settings)), **in_the_database(settings), **in_the_files()})
)
