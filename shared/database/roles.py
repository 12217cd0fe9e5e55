"""Applies the grants: roles with their passwords, privileges, and row-level security policies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

from shared.database.grants import (
    ALL,
    GRANTS,
    AnyOf,
    Columns,
    Grant,
    NotNull,
    OlderThan,
    RowCondition,
    role_name,
)

_ROLES_LOCK = 0x7669_6769_6D
"""Any fixed number. One process grants at a time, because concurrent changes of the catalogue fail."""
_POLICY_PREFIX = "vigil_"


_REVOKE_LARGE_OBJECTS: Final = """
do $$
declare
  signature regprocedure;
begin
  for signature in
    select oid from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and (proname ~ '^lo_' or proname in ('loread', 'lowrite'))
      and has_function_privilege('public', oid, 'execute')
  loop
    execute format('revoke execute on function %s from public', signature);
  end loop;
end
$$
"""


def apply(url: str, passwords: Mapping[str, str]) -> None:
    """Creates the roles and applies their grants. Idempotent, in one transaction.

    `url` logs in as the owner of the tables, who may create roles; `passwords` are keyed by service. Raises
    psycopg.Error if PostgreSQL refuses, and KeyError if a service has no password.
    """
    with psycopg.connect(url) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (_ROLES_LOCK,))
        _revoke_public(connection)
        for service, grants in GRANTS.items():
            _ensure_role(connection, role_name(service), passwords[service])
            _grant(connection, role_name(service), grants)
        _apply_policies(connection)


def _revoke_public(connection: Connection[Any]) -> None:
    """Revokes the default privileges of PUBLIC."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("revoke all on database {} from public").format(database))
    connection.execute("revoke all on schema public from public")
    connection.execute("revoke all on all tables in schema public from public")
    # Every role could fill the disk with large objects. PostgreSQL only warns an owner who is no superuser.
    connection.execute(_REVOKE_LARGE_OBJECTS)


def _ensure_role(connection: Connection[Any], role: str, password: str) -> None:
    existing = connection.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone()
    # A new role has no other attribute (superuser, bypassrls, …).
    verb = "create role {} with login noinherit" if existing is None else "alter role {} with login"
    # Hashed here, so that the password is in no statement that a server might log.
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL(verb + " password {}").format(sql.Identifier(role), sql.Literal(verifier.decode()))
    )


def _grant(connection: Connection[Any], role: str, grants: Mapping[str, Grant]) -> None:
    """Revokes everything first, in the same transaction, so that running services notice nothing."""
    role_identifier = sql.Identifier(role)
    database = sql.Identifier(connection.info.dbname)
    connection.execute(
        sql.SQL("revoke all on all tables in schema public from {}").format(role_identifier)
    )
    connection.execute(
        sql.SQL("grant connect on database {} to {}").format(database, role_identifier)
    )
    connection.execute(sql.SQL("grant usage on schema public to {}").format(role_identifier))
    for table, grant in grants.items():
        privileges = sql.SQL(", ").join(_privileges(grant))
        connection.execute(
            sql.SQL("grant {} on {} to {}").format(
                privileges, sql.Identifier(table), role_identifier
            )
        )


def _privileges(grant: Grant) -> Iterator[sql.Composable]:
    if grant.select:
        yield _privilege("select", grant.select)
    if grant.insert:
        yield _privilege("insert", grant.insert)
    if grant.update:
        yield _privilege("update", grant.update)
    if grant.delete:
        yield sql.SQL("delete")


def _privilege(privilege: LiteralString, columns: Columns) -> sql.Composable:
    if columns == ALL:
        return sql.SQL(privilege)
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(privilege + " ({})").format(names)


@dataclass(frozen=True)
class _Policy:
    table: str
    text: sql.Composable
    """The part of the statement after `create policy … on …`."""

    def name(self, connection: Connection[Any]) -> str:
        """A digest of the policy, so that an existing one is left alone: changing a policy locks its table."""
        digest = sha256(self.text.as_string(connection).encode()).hexdigest()[:16]
        return f"{_POLICY_PREFIX}{digest}"


def _apply_policies(connection: Connection[Any]) -> None:
    """Creates and drops policies on every table where a role is restricted to some rows.

    On such a table every other role needs a policy too, or it could write nothing.
    """
    policies = {
        (policy.table, policy.name(connection)): policy
        for table in sorted(_restricted_tables())
        for policy in _policies(table)
    }
    present = {
        (table, name)
        for table, name in connection.execute(
            "select tablename, policyname from pg_policies"
            " where schemaname = 'public' and starts_with(policyname, %s)",
            (_POLICY_PREFIX,),
        )
    }
    for table, name in sorted(present - policies.keys()):
        connection.execute(
            sql.SQL("drop policy {} on {}").format(sql.Identifier(name), sql.Identifier(table))
        )
    for table in {table for table, _ in present} - _restricted_tables():
        _set_row_security(connection, table, "disable")
    for table, name in sorted(policies.keys() - present):
        _set_row_security(connection, table, "enable")
        connection.execute(
            sql.SQL("create policy {} on {} ").format(sql.Identifier(name), sql.Identifier(table))
            + policies[table, name].text
        )


def _set_row_security(connection: Connection[Any], table: str, state: LiteralString) -> None:
    connection.execute(
        sql.SQL("alter table {} " + state + " row level security").format(sql.Identifier(table))
    )


def _restricted_tables() -> set[str]:
    return {
        table
        for grants in GRANTS.values()
        for table, grant in grants.items()
        if grant.selects or grant.inserts or grant.updates or grant.deletes
    }


def _policies(table: str) -> Iterator[_Policy]:
    for service, grants in GRANTS.items():
        grant = grants.get(table)
        if grant is None:
            continue
        role = sql.Identifier(role_name(service))
        if grant.select:
            rows = _condition(grant.selects)
            yield _Policy(table, sql.SQL("for select to {} using ({})").format(role, rows))
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


def _condition(rows: RowCondition | None) -> sql.Composable:
    if rows is None:
        return sql.SQL("true")
    if isinstance(rows, AnyOf):
        return sql.SQL("({})").format(sql.SQL(" or ").join(map(_condition, rows.conditions)))
    if isinstance(rows, OlderThan):
        return sql.SQL("{} < statement_timestamp() - make_interval(secs => {})").format(
            sql.Identifier(rows.column), sql.Literal(rows.days * 86_400)
        )
    if isinstance(rows, NotNull):
        return sql.SQL("{} is not null").format(sql.Identifier(rows.column))
    verb = sql.SQL("not in" if rows.negated else "in")
    values = sql.SQL(", ").join(sql.Literal(str(value)) for value in rows.values)
    return sql.SQL("{} {} ({})").format(sql.Identifier(rows.column), verb, values)
