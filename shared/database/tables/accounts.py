"""Tables: tokens, sessions, sign-in links, idempotency keys.

Of every secret only the digest is kept (`shared.accounts.credentials`): who reads these tables cannot come in by them.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id


class ApiToken(Base):
    """What a program shows to be let in for its user. Written by the api, the owner's own also by provisioning."""

    __tablename__ = "api_tokens"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    digest: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSONB)
    created_at: Mapped[Created]
    expires_at: Mapped[datetime | None]
    """None: never."""
    last_used_at: Mapped[datetime | None]
    """To the minute: not every request writes."""


class SignInLink(Base):
    """Begins one session, once; then it is deleted. Written by the api."""

    __tablename__ = "sign_in_links"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    digest: Mapped[bytes] = mapped_column(unique=True)
    created_at: Mapped[Created]
    expires_at: Mapped[datetime]


class BrowserSession(Base):
    """A browser that is signed in; ended ones are deleted. Written by the api."""

    __tablename__ = "sessions"

    id: Mapped[Id]
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    digest: Mapped[bytes] = mapped_column(unique=True)
    browser: Mapped[str]
    """What it calls itself, so that its user knows it again."""
    created_at: Mapped[Created]
    last_used_at: Mapped[Created]
    """To the minute. Too long ago, and the session has ended."""
    ends_at: Mapped[datetime]
    """At the latest, however much it is used."""


class IdempotencyKey(Base):
    """An answer that is given again to the same request. Written by the api, with what the request made."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("idempotency_keys_created_idx", "created_at"),)

    owner_id: Mapped[UUID] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[str]
    status: Mapped[int]
    body: Mapped[bytes | None]
    """None where it held a secret, which is shown once."""
    created_at: Mapped[Created]
