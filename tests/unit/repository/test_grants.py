"""The tables of permissions match the services, tables and events."""

import pytest

from cli.local.members import API, CONSUMER_SERVICES
from shared.database.grants import (
    ALL,
    GRANTS,
    MIN_RETENTION_DAYS,
    AnyOf,
    NotNull,
    OlderThan,
    RowCondition,
    RowFilter,
)
from shared.database.tables import Base
from shared.enums import InboxKind
from shared.events.permissions import PERMISSIONS, SCHEDULER
from shared.events.topology import CONSUMERS, PUBLISHES, STREAM
from shared.runtime.identity import SERVICES

TABLES = Base.metadata.tables
WRITTEN_BY_TRIGGERS = {"graph_head", "graph_journal", "graph_changes"}


def test_every_service_has_a_user_a_role_and_a_uid_of_its_own() -> None:
    assert set(CONSUMER_SERVICES) == set(CONSUMERS)
    by_name = {service.name: service for service in SERVICES}
    for name in (*CONSUMER_SERVICES, API):
        assert by_name[name].has_nats_user
        assert by_name[name].has_database_role
    assert len({service.uid for service in SERVICES}) == len(SERVICES)
    assert set(PERMISSIONS) | set(GRANTS) <= set(by_name)


MAY_CREATE = {
    f"$JS.API.STREAM.INFO.{STREAM}",
    f"$JS.API.STREAM.CREATE.{STREAM}",
    *(
        f"$JS.API.CONSUMER.{verb}.{STREAM}.{name}"
        for name in CONSUMERS
        for verb in ("INFO", "DURABLE.CREATE")
    ),
}
"""Privileges that the scheduler needs to create streams that NATS has lost."""


@pytest.mark.parametrize("service", CONSUMER_SERVICES)
def test_a_service_publishes_only_its_own_events_without_wildcards(service: str) -> None:
    subjects = {subject for subject in PERMISSIONS[service].publish if not subject.startswith("$")}
    assert subjects == {event.subject for event in PUBLISHES[service]}
    requests = {subject for subject in PERMISSIONS[service].publish if subject.startswith("$")}
    others = {subject for subject in requests if service not in subject}
    assert others <= (MAY_CREATE if service == SCHEDULER else set())
    assert PERMISSIONS[service].subscribe == (f"_INBOX_{service}.>",)


def _columns(rows: RowCondition) -> set[str]:
    if isinstance(rows, AnyOf):
        return set[str]().union(*map(_columns, rows.conditions))
    return {rows.column}


@pytest.mark.parametrize("service", GRANTS)
def test_grants_name_existing_tables_and_columns(service: str) -> None:
    for table, grant in GRANTS[service].items():
        columns = {column.name for column in TABLES[table].columns}
        named = {*grant.select, *grant.insert, *grant.update} - set(ALL)
        row_filters = (grant.inserts, grant.updates, grant.deletes)
        named |= {column for rows in row_filters if rows for column in _columns(rows)}
        assert named <= columns, table


def _old(column: str) -> OlderThan:
    return OlderThan(column, MIN_RETENTION_DAYS)


DELETES: dict[tuple[str, str], RowCondition | None] = {
    ("scheduler", "dead_letters"): AnyOf((NotNull("retry_requested_at"), _old("stored_at"))),
    ("scheduler", "calls"): _old("started_at"),
    ("scheduler", "llm_interactions"): _old("created_at"),
    ("scheduler", "inbox_items"): RowFilter("kind", (InboxKind.NOTICE,)),
    ("scheduler", "iterations"): None,
    ("scheduler", "contexts"): None,
    ("scheduler", "pinned_contexts"): None,
    ("scheduler", "sources"): None,
    ("scheduler", "deliveries"): None,
    ("scheduler", "investigation_requests"): None,
    ("scheduler", "news_items"): None,
}
"""The tables from which a service may delete, and which rows; None: all."""


@pytest.mark.parametrize("service", CONSUMER_SERVICES)
def test_no_service_deletes_or_rewrites_whole_rows(service: str) -> None:
    for table, grant in GRANTS[service].items():
        assert grant.delete == ((service, table) in DELETES), table
        assert grant.deletes == DELETES.get((service, table)), table
        assert grant.update != ALL, table


@pytest.mark.parametrize("service", CONSUMER_SERVICES)
def test_a_service_stores_its_own_dead_letters_and_cannot_request_a_retry(service: str) -> None:
    grant = GRANTS[service]["dead_letters"]
    own = RowFilter("service", (service,))
    assert (grant.inserts, grant.updates) == (own, own)
    assert "retry_requested_at" not in {*grant.insert, *grant.update}
    assert ALL[0] not in {*grant.insert, *grant.update}


def test_every_table_is_written_by_some_service_or_by_triggers_alone() -> None:
    written = {
        table
        for grants in GRANTS.values()
        for table, grant in grants.items()
        if grant.insert or grant.update
    }
    assert written.isdisjoint(WRITTEN_BY_TRIGGERS)
    assert written | WRITTEN_BY_TRIGGERS == set(TABLES)
