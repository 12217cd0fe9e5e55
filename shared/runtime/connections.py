"""How a process reaches NATS and Postgres: address, name, password and certificates, from the settings in one way."""

from shared.database.engine import Database
from shared.runtime.bus import Bus
from shared.runtime.credentials import credentials_of, database_url_of
from shared.runtime.settings import Settings


def bus_of(settings: Settings, name: str) -> Bus:
    return Bus(settings.nats_url, name=name, credentials=credentials_of(settings, name))


def database_of(settings: Settings, name: str, *, pool_size: int = 5) -> Database:
    # Which process a connection belongs to tells `vigil top` how many replicas there are.
    process = f"{name}@{settings.worker_name}"
    return Database(database_url_of(settings, name), name=process, pool_size=pool_size)
