"""Creates the connections of a process to NATS and PostgreSQL from its settings."""

from shared.database.engine import Database
from shared.runtime.bus import Bus
from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.settings import Settings


def create_bus(settings: Settings, name: str) -> Bus:
    return Bus(
        settings.nats_url,
        name=name,
        credentials=build_nats_credentials(settings, name),
        drain_seconds=settings.drain_seconds,
    )


def create_database(settings: Settings, name: str, *, pool_size: int = 5) -> Database:
    # `vigil top` counts replicas by the process names of their connections.
    process = f"{name}@{settings.worker_name}"
    signer = None
    if settings.signing_key_file is not None:
        from shared.database.signing import JournalSigner

        signer = JournalSigner.load(settings.signing_key_file)
    return Database(
        build_database_url(settings, name), name=process, pool_size=pool_size, signer=signer
    )
