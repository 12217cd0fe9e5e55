"""The scheduler can delete what is old with its own rights, and nothing that is not."""

from dataclasses import replace
from uuid import uuid4

import pytest

from shared.database.engine import Database
from shared.enums import RetentionKind
from shared.runtime.connections import create_database
from shared.workflow.retention import RetentionPolicy
from tests.support.factories import make_agent
from tests.support.retention.history import History
from tests.support.retention.pruning import count_rows, find_faults, pruner, read_sums
from tests.support.secured_installation import SecuredInstallation

DELETED = ("iterations", "steps", "llm_interactions", "calls", "contexts", "pinned_contexts")


async def test_the_scheduler_prunes_with_its_own_rights(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    history = History(owner_database, await make_agent(owner_database, name=str(uuid4())))
    for turn in range(3):
        await history.iterate()
        await history.converse(turn)
    sums = await read_sums(owner_database, history.agent)
    await history.pass_days(40)
    own = create_database(installation.settings("scheduler"), "scheduler")
    try:
        of_scheduler = pruner(own)
        pruned = {kind: await of_scheduler.prune(kind) for kind in RetentionKind}
        of_size = RetentionPolicy.of_days({}, dict.fromkeys(RetentionKind, 1))
        for kind in RetentionKind:
            await replace(of_scheduler, policy=of_size).prune(kind)
    finally:
        await own.close()
    assert pruned[RetentionKind.ITERATIONS] == 2
    assert pruned[RetentionKind.TRANSCRIPTS] > 3
    assert pruned[RetentionKind.CONTEXTS] > 0
    rows = await count_rows(owner_database)
    assert (rows["iterations"], rows["contexts"]) == (1, 0)
    assert (await read_sums(owner_database, history.agent)).summary == sums.summary
    assert await find_faults(owner_database, history.agent) == []


@pytest.mark.parametrize("table", ["calls", "llm_interactions"])
async def test_the_scheduler_cannot_delete_what_is_new(
    installation: SecuredInstallation, owner_database: Database, table: str
) -> None:
    history = History(owner_database, await make_agent(owner_database, name=str(uuid4())))
    await history.iterate()
    rows = await count_rows(owner_database)
    with installation.connect("scheduler") as connection:
        of_agent = {"agent": history.agent.id}
        delete = f"delete from {table} where agent_id = %(agent)s"
        assert connection.execute(delete, of_agent).rowcount == 0
    assert await count_rows(owner_database) == rows
