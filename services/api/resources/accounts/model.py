"""Users and their credentials."""

from typing import Final
from uuid import UUID

from sqlalchemy import select

from services.api.auth.dependencies import OperatorAccess, OwnedAccess
from services.api.http.dependencies import Page, PageQuery
from services.api.reading import columns_of, read_page
from shared.accounts.credentials import session_is_valid
from shared.database.pagination import Keyset
from shared.database.tables import ApiToken, BrowserSession, User
from shared.database.transaction import Transaction
from shared.schemas.accounts import SessionResponse, TokenResponse, UserResponse

_USERS: Final = Keyset("users", (User.name,), descending=False)
_TOKENS: Final = Keyset("tokens", (ApiToken.created_at, ApiToken.id))
_SESSIONS: Final = Keyset("sessions", (BrowserSession.created_at, BrowserSession.id))


async def list_users(access: OperatorAccess, page_request: PageQuery) -> Page[UserResponse]:
    """Lists users by name."""
    statement = select(*columns_of(User, UserResponse))
    return await read_page(access.session, UserResponse, statement, _USERS, page_request)


async def get_user(session: Transaction, user_id: UUID) -> UserResponse:
    """Raises NoResultFound where the user is deleted."""
    statement = select(*columns_of(User, UserResponse)).where(User.id == user_id)
    return UserResponse.model_validate(dict((await session.execute(statement)).mappings().one()))


async def list_tokens(access: OwnedAccess, page_request: PageQuery) -> Page[TokenResponse]:
    """Lists your tokens, newest first, without their values."""
    statement = select(*columns_of(ApiToken, TokenResponse)).where(
        ApiToken.user_id == access.owner_id
    )
    return await read_page(access.session, TokenResponse, statement, _TOKENS, page_request)


async def list_sessions(access: OwnedAccess, page_request: PageQuery) -> Page[SessionResponse]:
    """Lists the browsers that you are signed in with, newest first."""
    is_current = BrowserSession.id == access.caller.credential_id
    statement = select(*columns_of(BrowserSession, SessionResponse, current=is_current)).where(
        BrowserSession.user_id == access.owner_id, session_is_valid()
    )
    return await read_page(access.session, SessionResponse, statement, _SESSIONS, page_request)
