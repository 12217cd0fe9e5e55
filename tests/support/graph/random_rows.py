"""Picks and modifies random rows of a graph."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, select

from shared.database.tables import GraphNode
from shared.database.transaction import Transaction
from shared.graph.types import RESERVED_TYPES
from tests.support.table_rows import change, remove

LETTERS: Final = "abcxyzABCéß—字 .0123456789"

Values = dict[str, Any]


@dataclass(frozen=True)
class Chance:
    """Picks and modifies random rows of one agent's graph."""

    session: Transaction
    random: Random
    agent_id: UUID

    async def random_row(self, table: type[Any], *where: ColumnElement[bool]) -> Any:
        rows = await self.session.scalars(
            select(table).where(table.agent_id == self.agent_id, *where).order_by(table.id)
        )
        return self.random.choice(rows.all())

    async def random_fact(self) -> GraphNode:
        node: GraphNode = await self.random_row(GraphNode, GraphNode.type.not_in(RESERVED_TYPES))
        return node

    async def random_conclusion(self) -> GraphNode:
        node: GraphNode = await self.random_row(GraphNode, GraphNode.type.in_(RESERVED_TYPES))
        return node

    async def set(self, row: Any, **values: Any) -> UUID:
        """Updates the row and returns its id. Fails if nothing changes."""
        assert any(getattr(row, name) != value for name, value in values.items()), values
        row_id: UUID = row.id
        await change(self.session, row, **values)
        return row_id

    async def drop(self, row: Any) -> UUID:
        row_id: UUID = row.id
        await remove(self.session, row)
        return row_id

    def edit_text(self, text: str) -> str:
        """Return the text with one character added, removed or replaced."""
        index = self.random.randrange(len(text)) if text else 0
        letter = self.random.choice(
            [character for character in LETTERS if character not in text[index : index + 1]]
        )
        variants = [text[:index] + letter + text[index + 1 :], text[:index] + letter + text[index:]]
        if len(text) > 1:
            variants.append(text[:index] + text[index + 1 :])
        return self.random.choice(variants)

    def different_value(self, value: Any) -> Any:
        """Return another JSON value, or a copy with one nested difference."""
        match value:
            case bool() | None:
                return self.random.choice(
                    [other for other in (True, False, 0) if other is not value]
                )
            case int() | float():
                # By its digits, as PostgreSQL stores it: 3e23 and 3e23 + 0.25 are the same number.
                others = (value + 1, value - 1, value + 0.25, value + 10**6, 2 * value + 3)
                digits = Decimal(str(value))
                return self.random.choice(
                    [other for other in others if Decimal(str(other)) != digits]
                )
            case str():
                return self.edit_text(value)
            case list():
                return [*value, 1] if not value else [self.different_value(value[0]), *value[1:]]
            case _:
                return {**value, "another": 1}

    def change_properties(self, values: Values) -> Values:
        """Return the properties with one value changed, added or removed."""
        name = self.random.choice(sorted(values)) if values else ""
        variants = [{**values, "another": self.random.random()}]
        if name:
            variants.append({**values, name: self.different_value(values[name])})
            variants.append({key: value for key, value in values.items() if key != name})
        return self.random.choice(variants)

    def random_interval(self) -> timedelta:
        return timedelta(seconds=self.random.choice([1e-6, 1, 3600, 86_400 * 400]))
