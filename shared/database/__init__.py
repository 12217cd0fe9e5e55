"""PostgreSQL, the truth: tables, migrations, transactions, steps and their leases.

Every write of a step happens inside `leases.held`, which refuses a worker that lost its lease.
"""
