"""Several statements in one round trip to PostgreSQL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.direct import Direct, Row, driver_of, flush, returned

T = TypeVar("T")


@dataclass(frozen=True)
class Asked(Generic[T]):
    """A statement with its values, and what its rows mean."""

    statement: Direct
    given: Mapping[str, Any]
    read: Callable[[list[Row]], T]

    async def answer(self, session: AsyncSession) -> T:
        """By itself."""
        return self.read(await self.statement.rows(session, self.given))


class Answer(Generic[T]):
    """`value` is there when the trip has been made."""

    value: T


@dataclass(frozen=True)
class RoundTrip:
    """Statements that need nothing of each other's answers, sent together: to wait for each takes longer than to do it."""

    _asked: list[tuple[Asked[Any], Answer[Any]]] = field(default_factory=list)

    def ask(self, asked: Asked[T]) -> Answer[T]:
        answer = Answer[T]()
        self._asked.append((asked, answer))
        return answer

    async def make(self, session: AsyncSession) -> None:
        """In the order in which they were asked. What psycopg raises comes as it is, and is of the first that fails."""
        match self._asked:
            case []:
                return
            case [(asked, answer)]:
                answer.value = await asked.answer(session)
                return
        await flush(session)
        driver = await driver_of(session)
        async with driver.pipeline():
            cursors = [await asked.statement.sent(driver, asked.given) for asked, _ in self._asked]
        for (asked, answer), cursor in zip(self._asked, cursors, strict=True):
            answer.value = asked.read(await returned(cursor))
