"""The migrations produce exactly the tables of the models."""

import json
from uuid import UUID

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, select, text

from shared.database import migrate
from shared.database.engine import Database, driver_url
from shared.database.tables import Base, Interaction
from shared.errors import PermanentError
from shared.tools import Json
from tests.support.api.full_agent import add_phase_run
from tests.support.factories import make_agent, make_iteration


def test_migrations_equal_models(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    migrate.upgrade(database_url)
    migrate.upgrade(database_url)


def test_all_migrations_can_be_downgraded_and_applied_again(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        command.downgrade(migrate.config_for(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
    migrate.upgrade(database_url)


async def test_the_events_of_a_phase_run_survive_a_downgrade_and_an_upgrade(
    database: Database, database_url: str
) -> None:
    agent = await make_agent(database)
    run_id = await add_phase_run(database, await make_iteration(database, agent))
    stored = await _events(database, run_id) or []
    assert [event.get("name", event["type"]) for event in stored] == [
        "answer",
        "tavilySearch",
        "queryGraph",
        "answer",
    ]
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        command.downgrade(migrate.config_for(connection), "0003")
        of_run = text("select events from llm_interactions where id = :id")
        assert connection.scalar(of_run, {"id": run_id}) == stored
        # One before the first answer, and a search that the last answer has requested again.
        repair = {"type": "repair", "subject": "plan", "repairs": ["The mission is the query."]}
        stored = [repair, *stored, {**stored[1], "tool_call_id": "t2"}]
        update = text("update llm_interactions set events = cast(:events as jsonb) where id = :id")
        connection.execute(update, {"id": run_id, "events": json.dumps(stored)})
    engine.dispose()
    migrate.upgrade(database_url)
    assert await _events(database, run_id) == stored


async def _events(database: Database, run_id: UUID) -> list[Json] | None:
    async with database.transaction() as session:
        return await session.scalar(select(Interaction.events).where(Interaction.id == run_id))


def test_a_database_of_a_newer_version_is_refused_and_left_unchanged(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(
        PermanentError, match=r"revision 9999, but Vigil \S+ knows .* newer"
    ) as error:
        migrate.upgrade(database_url)
    assert (error.value.code, "\n" in str(error.value)) == ("newer_data", False)
    with engine.connect() as connection:
        assert connection.scalar(text("select version_num from alembic_version")) == "9999"
    engine.dispose()
