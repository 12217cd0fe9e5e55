"""What was made under a key that its maker chose, so that asking again makes nothing twice."""

from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created


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
