"""Users, and what they come in by."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.credentials import is_alive
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import ApiToken, BrowserSession, User
from shared.schemas.accounts import SessionView, TokenView, UserView
from shared.schemas.base import Page, Wanted

USERS = Keyset("users", (User.name,), descending=False)
TOKENS = Keyset("tokens", (ApiToken.created_at, ApiToken.id))
SESSIONS = Keyset("sessions", (BrowserSession.created_at, BrowserSession.id))


async def users(session: AsyncSession, wanted: Wanted) -> Page[UserView]:
    """By name. For operators: whoever else asks is not told who there is."""
    found = await slice_of(session, select(User), USERS, wanted)
    return found.page(UserView.model_validate)


async def user(session: AsyncSession, user_id: UUID) -> UserView:
    """As it is now. Raises NoResultFound where it is there no more."""
    statement = select(User).where(User.id == user_id).execution_options(populate_existing=True)
    return UserView.model_validate((await session.scalars(statement)).one())


async def tokens_of(session: AsyncSession, user_id: UUID, wanted: Wanted) -> Page[TokenView]:
    """The newest first; expired ones too."""
    statement = select(ApiToken).where(ApiToken.user_id == user_id)
    found = await slice_of(session, statement, TOKENS, wanted)
    return found.page(TokenView.model_validate)


async def sessions_of(
    session: AsyncSession, user_id: UUID, current: UUID, wanted: Wanted
) -> Page[SessionView]:
    """Those that have not ended, the newest first."""
    statement = select(BrowserSession).where(BrowserSession.user_id == user_id, is_alive())
    found = await slice_of(session, statement, SESSIONS, wanted)

    def view(row: BrowserSession) -> SessionView:
        return SessionView(
            id=row.id,
            browser=row.browser,
            created_at=row.created_at,
            last_used_at=row.last_used_at,
            ends_at=row.ends_at,
            current=row.id == current,
        )

    return found.page(view)
