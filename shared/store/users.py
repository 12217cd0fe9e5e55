"""Users, as whoever looks after the installation needs them."""

from collections.abc import Collection
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Text, cast, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import agents
from shared.store.tables import Agent, BrowserSession, SignInLink, User


async def ensure_owner(session: AsyncSession, name: str) -> UUID:
    """The installation's owner, an operator; made where there is none of that name."""
    owner_id = await agents.ensure_user(session, name)
    await session.execute(
        update(User)
        .where(User.id == owner_id, ~User.operator)
        .values(operator=True)
        .execution_options(synchronize_session=False)
    )
    return owner_id


async def create(session: AsyncSession, *, name: str, email: str | None, operator: bool) -> User:
    """Raises IntegrityError where there is one of that name, or with that address in whatever case."""
    user = User(id=uuid4(), name=name, email=email, operator=operator)
    session.add(user)
    await session.flush()
    await session.refresh(user)
    return user


async def find(session: AsyncSession, reference: str) -> User | None:
    """By name, id or mail address."""
    return await session.scalar(select(User).where(_is_named(reference)))


async def find_existing(session: AsyncSession, references: Collection[str]) -> set[str]:
    """Of these names, ids and mail addresses those of users that are not disabled."""
    names, addresses = list(references), [reference.lower() for reference in references]
    found = await session.execute(
        select(User.id, User.name, func.lower(User.email)).where(
            User.disabled_at.is_(None),
            or_(
                User.name.in_(names),
                func.lower(User.email).in_(addresses),
                cast(User.id, Text).in_(addresses),
            ),
        )
    )
    known = {str(each) for row in found for each in row if each is not None}
    return {each for each in references if each in known or each.lower() in known}


async def set_disabled(session: AsyncSession, user_id: UUID, *, disabled: bool) -> None:
    """A disabled user's tokens are refused from now on, and work again once it is enabled; its sessions are ended."""
    await session.execute(
        update(User)
        .where(User.id == user_id, User.disabled_at.is_(None) == disabled)
        .values(disabled_at=func.clock_timestamp() if disabled else None)
        .execution_options(synchronize_session=False)
    )
    if disabled:
        for table in (SignInLink, BrowserSession):
            await session.execute(delete(table).where(table.user_id == user_id))


async def remove(session: AsyncSession, user_id: UUID) -> None:
    """With every agent of its, in the midst of an iteration too, and every credential."""
    owned = await session.scalars(
        select(Agent.id).where(Agent.owner_id == user_id).order_by(Agent.id)
    )
    for agent_id in owned.all():
        await agents.delete(session, agent_id)
    await session.execute(delete(User).where(User.id == user_id))


def _is_named(reference: str) -> ColumnElement[bool]:
    by_words = or_(User.name == reference, func.lower(User.email) == reference.lower())
    try:
        return or_(by_words, User.id == UUID(reference))
    except ValueError:
        return by_words
