"""PostgreSQL access: tables, migrations, transactions, statements, grants.

PostgreSQL is the source of truth; events only announce what is committed there.
"""
