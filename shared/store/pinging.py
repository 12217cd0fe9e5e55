"""Which connections of a pool are asked whether they live before they are used.

To ask each time costs as much as what most transactions do. A server that ends a connection says so on it, and what was
said can be seen without asking; what vanished without a word is met by asking those that have rested.
"""

import select
import time
from typing import Any, Final

from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

RESTED_SECONDS: Final = 5.0
_SINCE: Final = "vigil_resting_since"


def ping_doubtful(engine: Engine) -> None:
    """From now on; one that turns out dead is left, and with it all that are as old, for a new one."""

    @event.listens_for(engine, "checkin")
    def rest(connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_SINCE] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def look(
        connection: DBAPIConnection, entry: ConnectionPoolEntry, _: PoolProxiedConnection
    ) -> None:
        since = entry.info.get(_SINCE)
        if since is None:  # it is new
            return
        if time.monotonic() - since < RESTED_SECONDS and _is_quiet(connection):
            return
        dialect = engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error


def _is_quiet(connection: Any) -> bool:
    """Whether the server has said nothing since it answered last; False where the connection is closed."""
    driver = connection.driver_connection
    if driver.closed:
        return False
    looking = select.poll()
    looking.register(driver.fileno(), select.POLLIN | select.POLLPRI)
    return not looking.poll(0)
