"""who may come in: tokens, sign-in links, sessions

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.add_column("users", sa.Column("email", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("operator", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.add_column("users", sa.Column("disabled_at", _MOMENT, nullable=True))
    op.add_column("users", sa.Column("signed_in_at", _MOMENT, nullable=True))
    op.create_index("users_email_key", "users", [sa.literal_column("lower(email)")], unique=True)
    _create(
        "api_tokens",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.Column("last_used_at", _MOMENT, nullable=True),
    )
    _create("sign_in_links", sa.Column("expires_at", _MOMENT, nullable=False))
    _create(
        "sessions",
        sa.Column("browser", sa.Text(), nullable=False),
        sa.Column("last_used_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=False),
    )


def _create(table: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        *columns,
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=f"{table}_user_id_fkey", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=f"{table}_pkey"),
        sa.UniqueConstraint("digest", name=f"{table}_digest_key"),
    )
    op.create_index(f"{table}_user_id_idx", table, ["user_id"], unique=False)


def downgrade() -> None:
    for table in ("sessions", "sign_in_links", "api_tokens"):
        op.drop_table(table)
    op.drop_index("users_email_key", table_name="users")
    for column in ("signed_in_at", "disabled_at", "operator", "email"):
        op.drop_column("users", column)
