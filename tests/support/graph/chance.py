"""One row of a graph at random, and a value that is another one."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import GraphNode
from shared.graph.types import RESERVED_TYPES

LETTERS: Final = "abcxyzABCéß—字 .0123456789"

Changed = dict[str, Any]


@dataclass(frozen=True)
class Chance:
    """One mutation of one agent's graph."""

    session: AsyncSession
    random: Random
    agent_id: UUID

    async def one(self, table: type[Any], *where: ColumnElement[bool]) -> Any:
        rows = await self.session.scalars(
            select(table).where(table.agent_id == self.agent_id, *where).order_by(table.id)
        )
        return self.random.choice(rows.all())

    async def fact(self) -> GraphNode:
        found: GraphNode = await self.one(GraphNode, GraphNode.type.not_in(RESERVED_TYPES))
        return found

    async def conclusion(self) -> GraphNode:
        found: GraphNode = await self.one(GraphNode, GraphNode.type.in_(RESERVED_TYPES))
        return found

    async def set(self, row: Any, **values: Any) -> UUID:
        """The row's id. Fails where that is no change."""
        assert any(getattr(row, name) != value for name, value in values.items()), values
        found: UUID = row.id
        table = type(row)
        await self.session.execute(
            update(table)
            .where(table.id == found)
            .values(**values)
            .execution_options(synchronize_session=False)
        )
        return found

    async def drop(self, row: Any) -> UUID:
        found: UUID = row.id
        table = type(row)
        await self.session.execute(
            delete(table).where(table.id == found).execution_options(synchronize_session=False)
        )
        return found

    def edited(self, text: str) -> str:
        """One character more, less or other."""
        at = self.random.randrange(len(text)) if text else 0
        other = self.random.choice([each for each in LETTERS if each not in text[at : at + 1]])
        ways = [text[:at] + other + text[at + 1 :], text[:at] + other + text[at:]]
        if len(text) > 1:
            ways.append(text[:at] + text[at + 1 :])
        return self.random.choice(ways)

    def otherwise(self, value: Any) -> Any:
        """Another JSON value in place of this one, or one that differs from it within."""
        match value:
            case bool() | None:
                return self.random.choice([each for each in (True, False, 0) if each is not value])
            case int() | float():
                return value + self.random.choice([1, -1, 0.25, 10**6])
            case str():
                return self.edited(value)
            case list():
                return [*value, 1] if not value else [self.otherwise(value[0]), *value[1:]]
            case _:
                return {**value, "another": 1}

    def changed(self, values: Changed) -> Changed:
        """With one value other, one more or one less."""
        name = self.random.choice(sorted(values)) if values else ""
        ways = [{**values, "another": self.random.random()}]
        if name:
            ways.append({**values, name: self.otherwise(values[name])})
            ways.append({key: value for key, value in values.items() if key != name})
        return self.random.choice(ways)

    def span(self) -> timedelta:
        return timedelta(seconds=self.random.choice([1e-6, 1, 3600, 86_400 * 400]))
