"""Users and their credentials."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.accounts.credentials import session_is_valid
from shared.database.pagination import Keyset, paginate
from shared.database.tables import ApiToken, BrowserSession, User
from shared.schemas.accounts import SessionResponse, TokenResponse, UserResponse
from shared.schemas.base import Page, PageRequest

USERS = Keyset("users", (User.name,), descending=False)
TOKENS = Keyset("tokens", (ApiToken.created_at, ApiToken.id))
SESSIONS = Keyset("sessions", (BrowserSession.created_at, BrowserSession.id))


async def list_users(session: AsyncSession, page_request: PageRequest) -> Page[UserResponse]:
    """Lists users by name. For operators only."""
    page_slice = await paginate(session, select(User), USERS, page_request)
    return page_slice.page(UserResponse.model_validate)


async def get_user(session: AsyncSession, user_id: UUID) -> UserResponse:
    """Returns the current user row. Raises NoResultFound where the user is deleted."""
    statement = select(User).where(User.id == user_id).execution_options(populate_existing=True)
    return UserResponse.model_validate((await session.scalars(statement)).one())


async def list_tokens(
    session: AsyncSession, user_id: UUID, page_request: PageRequest
) -> Page[TokenResponse]:
    """Lists tokens, newest first, including expired ones."""
    statement = select(ApiToken).where(ApiToken.user_id == user_id)
    page_slice = await paginate(session, statement, TOKENS, page_request)
    return page_slice.page(TokenResponse.model_validate)


async def list_sessions(
    session: AsyncSession, user_id: UUID, current: UUID, page_request: PageRequest
) -> Page[SessionResponse]:
    """Lists active sessions, newest first."""
    statement = select(BrowserSession).where(BrowserSession.user_id == user_id, session_is_valid())
    page_slice = await paginate(session, statement, SESSIONS, page_request)

    def view(row: BrowserSession) -> SessionResponse:
        return SessionResponse(
            id=row.id,
            browser=row.browser,
            created_at=row.created_at,
            last_used_at=row.last_used_at,
            ends_at=row.ends_at,
            current=row.id == current,
        )

    return page_slice.page(view)
