"""Alembic's entry: runs the history on the connection that `migrate.py` hands over."""

from alembic import context
from sqlalchemy import Connection

from shared.database.tables import Base

connection: Connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    transactional_ddl=True,
    # The tables of one are not held while another waits for its own.
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
