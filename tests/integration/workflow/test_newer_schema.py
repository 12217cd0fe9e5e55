"""Services read tables that a migration of a later release has added columns to."""

from sqlalchemy import text

from shared.database.engine import Database
from shared.workflow import investigations
from shared.workflow.investigations import MissingData
from tests.support.factories import make_agent, make_iteration


async def test_investigation_requests_are_read_after_a_later_migration(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    iteration = started.iteration
    async with database.transaction() as session:
        await investigations.create_request(
            iteration.agent_id,
            iteration.id,
            started.observe.id,
            MissingData("Output of Togo", "It is lacking.", ("output",)),
        ).execute(session)
    async with database.transaction() as session:
        await session.execute(text("alter table investigation_requests add column later integer"))
        requests = await investigations.list_requests(iteration.id).execute(session)
        await session.rollback()
    assert [(request.objective, request.search_hints) for request in requests] == [
        ("Output of Togo", ["output"])
    ]
