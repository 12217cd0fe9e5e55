"""whether an iteration's end was told, and when a step was first asked for

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A default that is dropped at once: it stands in every row that there is, and none of them is rewritten for it.
    # Their ends count as told.
    told = sa.Column('end_told_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=True)
    op.add_column('iterations', told)
    op.alter_column('iterations', 'end_told_at', server_default=None)
    op.execute("update iterations set end_told_at = null where status = 'running'")
    op.add_column('iterations', sa.Column('end_resends', sa.Integer(), server_default='0', nullable=False))
    op.add_column('iterations', sa.Column('end_resent_at', sa.DateTime(timezone=True), nullable=True))
    op.create_index('iterations_untold_idx', 'iterations', ['ended_at'], unique=False, postgresql_where=sa.text('ended_at is not null and end_told_at is null'))
    op.add_column('steps', sa.Column('first_requested_at', sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column('steps', 'first_requested_at')
    op.drop_index('iterations_untold_idx', table_name='iterations')
    op.drop_column('iterations', 'end_resent_at')
    op.drop_column('iterations', 'end_resends')
    op.drop_column('iterations', 'end_told_at')
