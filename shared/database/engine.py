"""Connections of a process to PostgreSQL, and waiting for it."""

import asyncio
import select
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from sqlalchemy import Engine, QueuePool, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from shared.errors import RetrySoonError

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


CONNECT_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT_SECONDS = 30
# A worker that is frozen in mid-transaction must not hold its row locks for ever.
IDLE_IN_TRANSACTION_TIMEOUT_SECONDS = 15
# The system's own defaults would wait for a server that vanished without a word for hours.
NOTICE_A_DEAD_NETWORK = {
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}


class Database:
    """A pool of connections. Give one to each process and close it at the end."""

    def __init__(self, url: str, *, name: str, pool_size: int = 5) -> None:
        """`url` is any PostgreSQL URL; `name` shows in pg_stat_activity."""
        settings = {
            "timezone": "UTC",
            "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_TIMEOUT_SECONDS}s",
        }
        self._engine = create_async_engine(
            driver_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                **NOTICE_A_DEAD_NETWORK,
                "application_name": f"vigil-{name}",
                "options": " ".join(f"-c {key}={value}" for key, value in settings.items()),
            },
        )
        ping_doubtful(self._engine.sync_engine)
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """A session whose work is committed when the block ends, or undone when it raises.

        Raises RetrySoonError, which uses up no attempt, when Postgres is away or asks for another try; CancelledError where
        that comes to a task that is cancelled meanwhile.
        """
        before = _cancellations()
        try:
            async with self._sessions.begin() as session:
                yield session
        except PoolTimeoutError as error:
            raise _away(str(error), before) from error
        except (OperationalError, InterfaceError) as error:
            raise _away(_reason(error), before) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _away(_reason(error), before) from error
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            # Of what was given to psycopg without SQLAlchemy: see `direct`.
            raise _away(_said(error), before) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncSession]:
        """As `transaction`, but all is read as it was when it was first looked at, and nothing can be written."""
        async with self.transaction() as session:
            await session.connection(
                execution_options={
                    "isolation_level": "REPEATABLE READ",
                    "postgresql_readonly": True,
                }
            )
            yield session

    async def ping(self) -> None:
        """Raises RetrySoonError unless Postgres answers."""
        async with self.transaction() as session:
            await session.execute(text("select 1"))

    def pool_use(self) -> dict[str, int]:
        """Connections of the pool: how many work, how many wait for work."""
        pool = self._engine.pool
        assert isinstance(pool, QueuePool)
        return {"busy": pool.checkedout(), "idle": pool.checkedin()}

    async def close(self) -> None:
        await self._engine.dispose()


def driver_url(url: str) -> str:
    """`url` with the driver that Vigil uses, whichever way people wrote it."""
    _, _, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}"


def role_in(url: str) -> str | None:
    """The role that `url` names."""
    return make_url(driver_url(url)).username


def with_login(url: str, *, role: str | None, password: str | None) -> str:
    """`url` with another role and password where they are given, for libpq and psycopg too."""
    whole = make_url(driver_url(url)).set(drivername="postgresql")
    if role is not None:
        whole = whole.set(username=role)
    if password is not None:
        whole = whole.set(password=password)
    address, mark, options = whole.render_as_string(hide_password=False).partition("?")
    # SQLAlchemy writes a space as +, which libpq takes for a plus: of a socket's path, for instance.
    return address + mark + options.replace("+", "%20")


def _away(said: str, cancellations: int) -> BaseException:
    """What a transaction raises that began when the task was cancelled so many times."""
    # SQLAlchemy sees a commit to its end though its task is cancelled meanwhile, and where it fails tells of the failure
    # alone. Whoever tries again what fails would go on for ever.
    if _cancellations() > cancellations:
        return asyncio.CancelledError()
    return RetrySoonError(f"PostgreSQL: {said}")


def _cancellations() -> int:
    """Of this task, that were not taken back."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _reason(error: DBAPIError) -> str:
    return _said(error.orig or error)


def _said(error: BaseException) -> str:
    told = str(error).strip()
    return told.splitlines()[0] if told else repr(error)
