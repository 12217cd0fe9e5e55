"""Puts the table of grants into force: roles with their passwords, privileges, and policies that bound rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, LiteralString

import psycopg
from psycopg import Connection, sql

from shared.database.grants import ALL, GRANTS, Columns, Filled, Grant, Rows, role_of

_ROLES_LOCK = 0x7669_6769_6D
"""Any fixed number: one process at a time grants, for catalogues take no two at once."""
_OURS = "vigil_"


def apply(url: str, passwords: Mapping[str, str]) -> None:
    """Idempotent, in one transaction. `url` is that of the tables' owner, who may make roles; `passwords` by actor.

    Raises psycopg.Error where Postgres refuses, and KeyError where an actor has no password.
    """
    with psycopg.connect(url) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (_ROLES_LOCK,))
        _close(connection)
        for actor, grants in GRANTS.items():
            _make_role(connection, role_of(actor), passwords[actor])
            _grant(connection, role_of(actor), grants)
        _bound_rows(connection)


def _close(connection: Connection[Any]) -> None:
    """What everybody may do by default, nobody may."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("revoke all on database {} from public").format(database))
    connection.execute("revoke all on schema public from public")
    connection.execute("revoke all on all tables in schema public from public")


def _make_role(connection: Connection[Any], role: str, password: str) -> None:
    found = connection.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone()
    # Whatever else a role may be (superuser, bypassrls, …) it is not, unless somebody makes it so by hand.
    verb = "create role {} with login noinherit" if found is None else "alter role {} with login"
    # Hashed here, so that the password itself stands in no statement that a server might log.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL(verb + " password {}").format(sql.Identifier(role), sql.Literal(verifier.decode()))
    )


def _grant(connection: Connection[Any], role: str, grants: Mapping[str, Grant]) -> None:
    """Takes everything away first: in the same transaction, so that nobody notices."""
    known = sql.Identifier(role)
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("revoke all on all tables in schema public from {}").format(known))
    connection.execute(sql.SQL("grant connect on database {} to {}").format(database, known))
    connection.execute(sql.SQL("grant usage on schema public to {}").format(known))
    for table, grant in grants.items():
        privileges = sql.SQL(", ").join(_privileges(grant))
        connection.execute(
            sql.SQL("grant {} on {} to {}").format(privileges, sql.Identifier(table), known)
        )


def _privileges(grant: Grant) -> Iterator[sql.Composable]:
    if grant.select:
        yield _on("select", grant.select)
    if grant.insert:
        yield _on("insert", grant.insert)
    if grant.update:
        yield _on("update", grant.update)
    if grant.delete:
        yield sql.SQL("delete")


def _on(privilege: LiteralString, columns: Columns) -> sql.Composable:
    if columns == ALL:
        return sql.SQL(privilege)
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(privilege + " ({})").format(listed)


@dataclass(frozen=True)
class _Policy:
    table: str
    text: sql.Composable
    """What follows `create policy … on …`."""

    def name(self, connection: Connection[Any]) -> str:
        """Says what it is by a digest, so that one that stands already is left alone: to change one locks its table."""
        digest = sha256(self.text.as_string(connection).encode()).hexdigest()[:16]
        return f"{_OURS}{digest}"


def _bound_rows(connection: Connection[Any]) -> None:
    """On every table where a role is bound to some rows; there, a role without a policy could write nothing."""
    wanted = {
        (policy.table, policy.name(connection)): policy
        for table in sorted(_bounded_tables())
        for policy in _policies(table)
    }
    present = {
        (table, name)
        for table, name in connection.execute(
            "select tablename, policyname from pg_policies"
            " where schemaname = 'public' and starts_with(policyname, %s)",
            (_OURS,),
        )
    }
    for table, name in sorted(present - wanted.keys()):
        connection.execute(
            sql.SQL("drop policy {} on {}").format(sql.Identifier(name), sql.Identifier(table))
        )
    for table in {table for table, _ in present} - _bounded_tables():
        _switch(connection, table, "disable")
    for table, name in sorted(wanted.keys() - present):
        _switch(connection, table, "enable")
        connection.execute(
            sql.SQL("create policy {} on {} ").format(sql.Identifier(name), sql.Identifier(table))
            + wanted[table, name].text
        )


def _switch(connection: Connection[Any], table: str, state: LiteralString) -> None:
    connection.execute(
        sql.SQL("alter table {} " + state + " row level security").format(sql.Identifier(table))
    )


def _bounded_tables() -> set[str]:
    return {
        table
        for grants in GRANTS.values()
        for table, grant in grants.items()
        if grant.inserts or grant.updates or grant.deletes
    }


def _policies(table: str) -> Iterator[_Policy]:
    for actor, grants in GRANTS.items():
        grant = grants.get(table)
        if grant is None:
            continue
        role = sql.Identifier(role_of(actor))
        if grant.select:
            yield _Policy(table, sql.SQL("for select to {} using (true)").format(role))
        if grant.insert:
            rows = _condition(grant.inserts)
            yield _Policy(table, sql.SQL("for insert to {} with check ({})").format(role, rows))
        if grant.update:
            rows = _condition(grant.updates)
            yield _Policy(
                table,
                sql.SQL("for update to {} using ({}) with check ({})").format(role, rows, rows),
            )
        if grant.delete:
            rows = _condition(grant.deletes)
            yield _Policy(table, sql.SQL("for delete to {} using ({})").format(role, rows))


def _condition(rows: Rows | Filled | None) -> sql.Composable:
    if rows is None:
        return sql.SQL("true")
    if isinstance(rows, Filled):
        return sql.SQL("{} is not null").format(sql.Identifier(rows.column))
    verb = sql.SQL("not in" if rows.but else "in")
    values = sql.SQL(", ").join(sql.Literal(str(value)) for value in rows.values)
    return sql.SQL("{} {} ({})").format(sql.Identifier(rows.column), verb, values)
