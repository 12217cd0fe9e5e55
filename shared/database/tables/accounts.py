"""Tables: tokens, sessions, sign-in links, idempotency keys.

Only the digest of a secret is stored (`shared.accounts.credentials`), so reading these tables gives no access.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id


class ApiToken(Base):
    """A bearer token of a user. Written by the API; the token of the installation's owner also by provisioning."""

    __tablename__ = "api_tokens"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    digest: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSONB)
    created_at: Mapped[Created]
    expires_at: Mapped[datetime | None]
    """None: never expires."""
    last_used_at: Mapped[datetime | None]
    """Rounded to the minute, so that not every request writes."""


class SignInLink(Base):
    """A single-use link that starts a session; deleted when used. Written by the API."""

    __tablename__ = "sign_in_links"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    digest: Mapped[bytes] = mapped_column(unique=True)
    created_at: Mapped[Created]
    expires_at: Mapped[datetime]


class BrowserSession(Base):
    """A signed-in browser; ended sessions are deleted. Written by the API."""

    __tablename__ = "sessions"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    digest: Mapped[bytes] = mapped_column(unique=True)
    browser: Mapped[str]
    """The name of the browser, so that its user recognizes the session."""
    created_at: Mapped[Created]
    last_used_at: Mapped[Created]
    """Rounded to the minute. The session ends after a time without use."""
    ends_at: Mapped[datetime]
    """The latest end, regardless of use."""


class IdempotencyKey(Base):
    """A stored response, returned for a repeated request. Written by the API in the transaction of the request."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("idempotency_keys_created_idx", "created_at"),)

    owner_id: Mapped[UUID] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[str]
    status: Mapped[int]
    body: Mapped[bytes | None]
    """None if it contained a secret, which is shown once."""
    created_at: Mapped[Created]
