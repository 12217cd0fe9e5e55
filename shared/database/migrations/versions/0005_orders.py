"""steps that a person asks for, which are no iteration's

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Actors of before find steps by the ids and kinds that they know, or by their iterations: never one without.
loosens = {"steps.iteration_id"}

_ITERATIONS = ("observe", "query", "insight", "advise")
_ORDERED = ("configure", "converse")


def upgrade() -> None:
    op.alter_column("steps", "iteration_id", existing_type=sa.Uuid(), nullable=True)
    _allow_kinds(_ITERATIONS + _ORDERED)


def downgrade() -> None:
    op.execute("delete from steps where iteration_id is null")
    _allow_kinds(_ITERATIONS)
    op.alter_column("steps", "iteration_id", existing_type=sa.Uuid(), nullable=False)


def _allow_kinds(kinds: tuple[str, ...]) -> None:
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    op.drop_constraint(op.f("steps_kind_check"), "steps", type_="check")
    op.create_check_constraint(op.f("steps_kind_check"), "steps", f"kind in ({listed})")
