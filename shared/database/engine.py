"""The connection pool of a process, its transactions and reads, and URL helpers."""

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from sqlalchemy import make_url

from shared.database.pipelined import PipelinedConnection
from shared.database.statements import Batch, BoundQuery, CompiledStatement, Executor
from shared.database.transaction import Transaction
from shared.errors import RetrySoonError

if TYPE_CHECKING:
    from shared.database.signing import JournalSigner

T = TypeVar("T")


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
    # Most statements look up few rows by an index, in its order. While a table is small, PostgreSQL would rather read all
    # of it, or of an index, and sort; it keeps such a plan until it analyses the table again, and by then the table may
    # have grown a hundredfold.
    "enable_seqscan": "off",
    "random_page_cost": "1.1",
    "jit": "off",
}


_STALE_PLAN: Final = "cached plan"
"""Part of the error of a prepared statement whose table was migrated; the connection then forgets the statement."""


_CLOSE_JOURNAL: Final = CompiledStatement(
    "select of_agent, of_seq, of_hash from close_graph_journal()"
)
_SIGN_JOURNAL: Final = CompiledStatement(
    "select sign_graph_journal(cast(:agent as uuid), cast(:seq as bigint), cast(:signature as bytea))"
)
_PING: Final = BoundQuery[None](CompiledStatement("select 1"), {}, lambda _: None)
MAX_IDLE_SECONDS: Final = 30.0
"""Connections that are not used for so long are closed: each takes 2 to 12 MiB of PostgreSQL's memory."""


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

        There are at most `max_connections`, twice `pool_size`. With a `signer`, what a transaction adds to the journals of
        graphs is signed before the commit, in two more round trips.
        """
        self.signer: Final = signer
        self.max_connections: Final = 2 * pool_size
        self._pool: AsyncConnectionPool[PipelinedConnection] = AsyncConnectionPool(
            with_login(url, role=None, password=None),
            kwargs={
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                **KEEPALIVE_OPTIONS,
                "application_name": f"vigil-{name}",
                "options": " ".join(f"-c {key}={value}" for key, value in _SERVER_SETTINGS.items()),
                "autocommit": True,
                "prepare_threshold": None,
            },
            connection_class=PipelinedConnection,
            min_size=0,
            max_size=self.max_connections,
            max_idle=MAX_IDLE_SECONDS,
            timeout=CONNECT_TIMEOUT_SECONDS,
            open=False,
        )

    @asynccontextmanager
    async def transaction(self, batch: Batch | None = None) -> AsyncIterator[Transaction]:
        """A transaction that commits when the block ends and rolls back when it raises.

        It begins in the round trip of `batch`, if there is one, otherwise with its first statement.

        Raises RetrySoonError, which uses up no attempt, if PostgreSQL is unavailable or asks for a retry, and
        CancelledError if the task was cancelled meanwhile.
        """
        async with self.begin(batch) as transaction:
            yield transaction
            await transaction.flush()
            if transaction.is_begun and self.signer is not None:
                await self.sign(transaction)
            await transaction.commit()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        """Like `transaction`, but read-only and with a consistent snapshot (REPEATABLE READ)."""
        async with self.begin(is_snapshot=True) as transaction:
            yield transaction
            await transaction.commit()

    @asynccontextmanager
    async def begin(
        self, batch: Batch | None = None, *, is_snapshot: bool = False
    ) -> AsyncIterator[Transaction]:
        """Like `transaction`, but the block itself commits."""
        async with self.connection() as connection:
            try:
                if batch is not None:
                    await batch.execute(connection, begins=True)
                yield Transaction(connection, is_begun=batch is not None, is_snapshot=is_snapshot)
            except Exception:
                if not connection.closed:
                    await connection.rollback()
                raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PipelinedConnection]:
        """A connection outside of a transaction, for compiled statements.

        Raises RetrySoonError if PostgreSQL is unavailable, or if a table was migrated meanwhile.
        """
        cancellations = _pending_cancellations()
        if self._pool.closed:
            await self._pool.open()
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
                await self._pool.putconn(connection)
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
            connection = await self._pool.getconn()
            if not connection.closed and not _is_readable(connection.fileno()):
                return connection
            await connection.close()
            await self._pool.putconn(connection)

    async def run(self, query: BoundQuery[T]) -> T:
        """Runs one statement, which is a transaction of its own, in one round trip.

        Raises RetrySoonError if PostgreSQL is unavailable.
        """
        async with self.connection() as connection:
            return await query.execute(connection)

    async def read(self, batch: Batch) -> None:
        """Executes `batch`, whose statements only read, outside of a transaction of the caller. Raises like `run`."""
        async with self.connection() as connection:
            await batch.execute(connection)

    async def write(self, batch: Batch) -> None:
        """Executes `batch` in a transaction of its own, in one round trip.

        Raises CommitForbiddenError if a statement forbids to commit, and otherwise like `connection`.
        """
        async with self.connection() as connection:
            try:
                await batch.execute(connection, begins=True, commits=True)
            except Exception:
                await connection.rollback()
                raise

    @asynccontextmanager
    async def connection_after(self, batch: Batch) -> AsyncIterator[Executor]:
        """A connection on which `batch` was executed; in a transaction, if what it adds to journals of graphs is signed."""
        if self.signer is None:
            async with self.connection() as connection:
                await batch.execute(connection)
                yield connection
        else:
            async with self.transaction(batch) as transaction:
                yield transaction

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
        await self.run(_PING)

    def pool_use(self) -> dict[str, int]:
        """Number of busy and idle connections, and of tasks that are waiting for one."""
        stats = self._pool.get_stats()
        idle = stats.get("pool_available", 0)
        return {
            "busy": stats.get("pool_size", 0) - idle,
            "idle": idle,
            "waiting": stats.get("requests_waiting", 0),
        }

    async def close(self) -> None:
        await self._pool.close()


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
    # An error that comes after a cancellation hides it. A caller that retries errors would then never see it.
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


def _first_line(error: BaseException) -> str:
    message = str(error).strip()
    return message.splitlines()[0] if message else repr(error)
