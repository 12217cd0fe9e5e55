"""The tables of permissions match the services, tables and events."""

import pytest

from cli.local.members import API, CONSUMER_SERVICES
from shared.database.grants import ALL, GRANTS, NotNull, RowFilter
from shared.database.tables import Base
from shared.events.permissions import PERMISSIONS
from shared.events.topology import CONSUMERS, PUBLISHES
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


@pytest.mark.parametrize("service", CONSUMER_SERVICES)
def test_a_service_publishes_only_its_own_events_without_wildcards(service: str) -> None:
    subjects = {subject for subject in PERMISSIONS[service].publish if not subject.startswith("$")}
    assert subjects == {event.subject for event in PUBLISHES[service]}
    assert all(
        service in subject for subject in PERMISSIONS[service].publish if subject.startswith("$")
    )
    assert PERMISSIONS[service].subscribe == (f"_INBOX_{service}.>",)


@pytest.mark.parametrize("service", GRANTS)
def test_grants_name_existing_tables_and_columns(service: str) -> None:
    for table, grant in GRANTS[service].items():
        columns = {column.name for column in TABLES[table].columns}
        named = {*grant.select, *grant.insert, *grant.update} - set(ALL)
        row_filters = (grant.inserts, grant.updates, grant.deletes)
        named |= {row_filter.column for row_filter in row_filters if row_filter}
        assert named <= columns, table


DELETES = {("scheduler", "dead_letters"): NotNull("retry_requested_at")}
"""The tables from which a service may delete, and which rows."""


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
