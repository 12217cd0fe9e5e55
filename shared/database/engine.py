"""The connection pools of a process, its transactions and reads, and URL helpers."""

import asyncio
import select
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from sqlalchemy import Engine, QueuePool, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from shared.database.group_commit import GroupCommit, RejectedError
from shared.database.pipelined import PipelinedConnection
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    RoundTrip,
    Transaction,
    commit_together,
)
from shared.errors import RetrySoonError

if TYPE_CHECKING:
    from shared.database.signing import JournalSigner

T = TypeVar("T")

PING_AFTER_IDLE_SECONDS: Final = 5.0
_IDLE_SINCE: Final = "vigil_resting_since"


def ping_stale_connections(engine: Engine) -> None:
    """Pings pooled connections on checkout if they were idle for long or have unread input.

    A connection that turns out dead is discarded, and with it every pooled connection of the same age.
    """

    @event.listens_for(engine, "checkin")
    def note_checkin(connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
        entry.info[_IDLE_SINCE] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping_if_stale(
        connection: DBAPIConnection, entry: ConnectionPoolEntry, _: PoolProxiedConnection
    ) -> None:
        since = entry.info.get(_IDLE_SINCE)
        if since is None:  # a new connection
            return
        if time.monotonic() - since < PING_AFTER_IDLE_SECONDS and _is_quiet(connection):
            return
        dialect = engine.dialect
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error


def _is_quiet(connection: Any) -> bool:
    """Whether the server has sent nothing unread; False if the connection is closed."""
    driver = connection.driver_connection
    return not driver.closed and not _is_readable(driver.fileno())


def _is_readable(fileno: int) -> bool:
    poller = select.poll()
    poller.register(fileno, select.POLLIN | select.POLLPRI)
    return bool(poller.poll(0))


CONNECT_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT_SECONDS = 30
# A worker that hangs in the middle of a transaction must not hold its row locks forever.
IDLE_IN_TRANSACTION_TIMEOUT_SECONDS = 15
# The defaults of the operating system would wait for hours for a server that vanished.
KEEPALIVE_OPTIONS = {
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}


_SERVER_SETTINGS: Final = {
    "timezone": "UTC",
    "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_TIMEOUT_SECONDS}s",
}
# The statements without SQLAlchemy look up few rows by an index, in its order. While a table is small, PostgreSQL would
# rather read all of it, or of an index, and sort; it keeps such a plan until it analyses the table again, and by then the
# table may have grown a hundredfold.
_DIRECT_SETTINGS: Final = {"enable_seqscan": "off", "random_page_cost": "1.1", "jit": "off"}


def _as_options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {key}={value}" for key, value in settings.items())


_STALE_PLAN: Final = "cached plan"
"""In the error of a prepared statement whose table was migrated. The connection has forgotten it then."""


_CLOSE_JOURNAL: Final = CompiledStatement(
    "select of_agent, of_seq, of_hash from close_graph_journal()"
)
_SIGN_JOURNAL: Final = CompiledStatement(
    "select sign_graph_journal(cast(:agent as uuid), cast(:seq as bigint), cast(:signature as bytea))"
)


class Database:
    """A pool of connections. Create one per process and close it at the end."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        pool_size: int = 5,
        signer: "JournalSigner | None" = None,
    ) -> None:
        """`url` is any PostgreSQL URL; `name` is shown in pg_stat_activity, and in the journals of graphs.

        There are at most `pool_size` connections without SQLAlchemy, and as many with it, in a rush twice as many. With a
        `signer`, what a transaction adds to the journals of graphs is signed before the commit, in two more round trips.
        """
        self.signer: Final = signer
        self.max_connections: Final = 3 * pool_size
        options = {
            "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            **KEEPALIVE_OPTIONS,
            "application_name": f"vigil-{name}",
        }
        self._engine = create_async_engine(
            driver_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            connect_args={**options, "options": _as_options(_SERVER_SETTINGS)},
        )
        ping_stale_connections(self._engine.sync_engine)
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)
        self._direct: AsyncConnectionPool[PipelinedConnection] = AsyncConnectionPool(
            with_login(url, role=None, password=None),
            kwargs={
                **options,
                "options": _as_options(_SERVER_SETTINGS | _DIRECT_SETTINGS),
                "autocommit": True,
                "prepare_threshold": None,
            },
            connection_class=PipelinedConnection,
            min_size=0,
            max_size=pool_size,
            timeout=CONNECT_TIMEOUT_SECONDS,
            open=False,
        )
        self._group_commit = GroupCommit(self._write_alone, self._write_group)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """A session that commits when the block ends and rolls back when it raises.

        Raises RetrySoonError, which uses up no attempt, if PostgreSQL is unavailable or asks for a retry, and
        CancelledError if the task was cancelled meanwhile.
        """
        async with self._session() as session:
            yield session
            await session.flush()
            await self.sign(session)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[AsyncSession]:
        cancellations = _pending_cancellations()
        try:
            async with self._sessions.begin() as session:
                yield session
        except PoolTimeoutError as error:
            raise _unavailable(str(error), cancellations) from error
        except (OperationalError, InterfaceError) as error:
            raise _unavailable(_reason(error), cancellations) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _unavailable(_reason(error), cancellations) from error
            raise
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            # Raised by statements that bypass SQLAlchemy: see `shared.database.statements`.
            raise _unavailable(_first_line(error), cancellations) from error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncSession]:
        """Like `transaction`, but read-only and with a consistent snapshot (REPEATABLE READ)."""
        async with self._session() as session:
            await session.connection(
                execution_options={
                    "isolation_level": "REPEATABLE READ",
                    "postgresql_readonly": True,
                }
            )
            yield session

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PipelinedConnection]:
        """A connection without SQLAlchemy and outside of a transaction, for compiled statements.

        Raises RetrySoonError if PostgreSQL is unavailable, or if a table was migrated meanwhile.
        """
        cancellations = _pending_cancellations()
        if self._direct.closed:
            await self._direct.open()
        try:
            # Not the pool's context manager, which would send a COMMIT without a transaction.
            connection = await self._take_connection()
            try:
                # `asyncio.wait_for` of Python 3.11, with which the pool waits, loses a cancellation that comes just
                # when a connection is free.
                _raise_if_cancelled(cancellations)
                yield connection
                _raise_if_cancelled(cancellations)
            except asyncio.CancelledError:
                # It may be amid a pipeline, and would then ignore the statements of the next user.
                await connection.close()
                raise
            finally:
                await self._direct.putconn(connection)
        except psycopg.errors.FeatureNotSupported as error:
            if _STALE_PLAN not in str(error):
                raise
            raise _unavailable(_first_line(error), cancellations) from error
        except PoolTimeout as error:
            reason = f"no connection within {CONNECT_TIMEOUT_SECONDS} s: it is not running, or all of them are busy"
            raise _unavailable(reason, cancellations) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise _unavailable(_first_line(error), cancellations) from error

    async def _take_connection(self) -> PipelinedConnection:
        """A connection of the pool. Discards those that a restart of PostgreSQL has left dead, all at once: after each one
        that fails a check of the pool itself, it waits for a second or longer.
        """
        while True:
            connection = await self._direct.getconn()
            if not connection.closed and not _is_readable(connection.fileno()):
                return connection
            await connection.close()
            await self._direct.putconn(connection)

    async def run(self, query: BoundQuery[T]) -> T:
        """Run one statement, which is a transaction of its own: one round trip, without SQLAlchemy.

        Raises RetrySoonError if PostgreSQL is unavailable.
        """
        async with self.connection() as connection:
            return await query.answer(connection)

    async def look_up(self, trip: RoundTrip) -> None:
        """Make `trip`, whose statements only read, outside of a transaction of the caller. Raises like `run`."""
        async with self.connection() as connection:
            await trip.make(connection)

    async def write(self, trip: RoundTrip, agent_id: UUID | None = None) -> None:
        """Make `trip` in a transaction without SQLAlchemy, which takes this one round trip.

        With the `agent_id` of a trip that locks rows of this agent only, and changes no graph, it may be committed together
        with trips of other agents: the journal of a graph names one step for each transaction. Raises UndoneError if a
        statement forbids to commit, and otherwise like `connection`.
        """
        if agent_id is None:
            await self._write_alone(trip)
        else:
            await self._group_commit.write(agent_id, trip)

    async def _write_alone(self, trip: RoundTrip) -> None:
        async with self.connection() as connection:
            try:
                await trip.make(connection, begins=True, commits=True)
            except Exception:
                await connection.rollback()
                raise

    async def _write_group(self, trips: Sequence[RoundTrip]) -> None:
        """Makes the trips in one transaction. Raises RejectedError if nothing was written, otherwise like `connection`."""
        async with self.connection() as connection:
            try:
                await commit_together(connection, trips)
            except Exception as error:
                if connection.closed:  # Then the outcome is unknown.
                    raise
                await connection.rollback()
                raise RejectedError from error

    @asynccontextmanager
    async def direct_transaction(self, trip: RoundTrip) -> AsyncIterator[Transaction]:
        """A transaction without SQLAlchemy that begins in the round trip of `trip`. The block ends it; if it raises, the
        transaction is rolled back. Raises like `connection`.
        """
        async with self.connection() as connection:
            try:
                await trip.make(connection, begins=True)
                yield Transaction(connection)
            except Exception:
                await connection.rollback()
                raise

    @asynccontextmanager
    async def connection_after(self, trip: RoundTrip) -> AsyncIterator[PipelinedConnection]:
        """A connection on which `trip` was made; in a transaction, if what it adds to journals of graphs is signed."""
        if self.signer is None:
            async with self.connection() as connection:
                await trip.make(connection)
                yield connection
        else:
            async with self.writing(trip) as connection:
                yield connection

    @asynccontextmanager
    async def writing(self, trip: RoundTrip) -> AsyncIterator[PipelinedConnection]:
        """The same on its bare connection, committed when the block ends."""
        async with self.direct_transaction(trip) as transaction:
            yield transaction.connection
            await self.sign(transaction.connection)
            await transaction.connection.execute("commit")

    async def sign(self, transaction: Executor) -> None:
        """Sign what the transaction adds to the journals of graphs, if there is a signer. Right before the commit."""
        if self.signer is None:
            return
        for entry in await _CLOSE_JOURNAL.rows(transaction):
            signature = self.signer.sign(entry.of_agent, entry.of_seq, entry.of_hash)
            await _SIGN_JOURNAL.run(
                transaction,
                {"agent": entry.of_agent, "seq": entry.of_seq, "signature": signature},
            )

    async def ping(self) -> None:
        """Raises RetrySoonError unless PostgreSQL answers."""
        async with self.transaction() as session:
            await session.execute(text("select 1"))

    def pool_use(self) -> dict[str, int]:
        """Number of busy and idle connections of the pools, and of tasks that are waiting for one without SQLAlchemy."""
        pool = self._engine.pool
        assert isinstance(pool, QueuePool)
        direct = self._direct.get_stats()
        idle = direct.get("pool_available", 0)
        return {
            "busy": pool.checkedout() + direct.get("pool_size", 0) - idle,
            "idle": pool.checkedin() + idle,
            "waiting": direct.get("requests_waiting", 0),
        }

    async def close(self) -> None:
        await self._direct.close()
        await self._engine.dispose()


def driver_url(url: str) -> str:
    """`url` with the driver that Vigil uses, whatever scheme it has."""
    _, _, address = url.partition("://")
    return f"postgresql+psycopg://{address}"


def role_in_url(url: str) -> str | None:
    """The role in `url`."""
    return make_url(driver_url(url)).username


def with_login(url: str, *, role: str | None, password: str | None) -> str:
    """`url` with another role and password, if set. Works for libpq and psycopg too."""
    login_url = make_url(driver_url(url)).set(drivername="postgresql")
    if role is not None:
        login_url = login_url.set(username=role)
    if password is not None:
        login_url = login_url.set(password=password)
    address, separator, options = login_url.render_as_string(hide_password=False).partition("?")
    # SQLAlchemy leaves a space in a password as it is, which libpq refuses. In options it encodes one as +, which
    # libpq reads as a plus, for example in a socket's path.
    return address.replace(" ", "%20") + separator + options.replace("+", "%20")


def _unavailable(reason: str, cancellations: int) -> BaseException:
    """The error to raise from a transaction that began when the task had `cancellations` pending cancellations."""
    # SQLAlchemy finishes a commit even if its task is cancelled meanwhile, and if the commit fails, it raises only that
    # error. A caller that retries errors would then never see the cancellation.
    if _pending_cancellations() > cancellations:
        return asyncio.CancelledError()
    return RetrySoonError(f"PostgreSQL: {reason}")


def _raise_if_cancelled(cancellations: int) -> None:
    if _pending_cancellations() > cancellations:
        raise asyncio.CancelledError


def _pending_cancellations() -> int:
    """Pending cancellation requests of the current task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _reason(error: DBAPIError) -> str:
    return _first_line(error.orig or error)


def _first_line(error: BaseException) -> str:
    message = str(error).strip()
    return message.splitlines()[0] if message else repr(error)
