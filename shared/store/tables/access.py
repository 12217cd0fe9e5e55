"""Who may come in: tokens of programs, and sessions of browsers with the links that begin them.

Of every secret only the digest is kept (`shared.store.secrets`): who reads these tables cannot come in by them.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id


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
