"""Advice makes one inbox item and one message in the conversation, however often its step is restarted."""

from collections.abc import Sequence

from sqlalchemy import select, update

from shared import derived_events
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Conversation, GraphNode, InboxItem, Message, Step
from shared.enums import ADVICE_TYPE, StepKind, StepStatus
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import steps
from tests.support import table_rows
from tests.support.mission import Mission
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.waiting import wait_until


async def test_advice_is_stored_once_however_often_its_step_is_restarted(
    sandbox_settings: Settings, database: Database, bus: Bus, sandbox: str
) -> None:
    mission = await Mission.begin(database, Sandbox(sandbox), "once")
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
    first = await items_and_messages(database)
    advice = await advice_of(database)
    assert len(advice) == 2
    assert {item.id for item in first[0]} == {ids.inbox_item_id(node.id) for node in advice}
    assert {message.id for message in first[1]} == {ids.message_id(node.id) for node in advice}
    for number in (1, 2):
        await restart_advise_step(database, bus, number)
        async with running_services(sandbox_settings, ("adviser",)):
            await wait_until(lambda: all_ended(database), what="the step to end once more")
    assert [[row.id for row in rows] for rows in await items_and_messages(database)] == [
        [row.id for row in rows] for rows in first
    ]


async def items_and_messages(database: Database) -> tuple[Sequence[InboxItem], Sequence[Message]]:
    async with database.transaction() as session:
        items = await session.scalars(select(InboxItem).order_by(InboxItem.id))
        messages = await session.scalars(
            select(Message)
            .join(Conversation, Conversation.id == Message.conversation_id)
            .where(Message.content.contains("**BUY: ") | Message.content.contains("**SELL: "))
            .order_by(Message.id)
        )
        return items.all(), messages.all()


async def advice_of(database: Database) -> Sequence[GraphNode]:
    async with database.transaction() as session:
        return (await session.scalars(select(GraphNode).where(GraphNode.type == ADVICE_TYPE))).all()


async def restart_advise_step(database: Database, bus: Bus, number: int) -> None:
    """As after a kill between the effects of the step and its end: its message is redelivered, and it is claimed again."""
    async with database.transaction() as session:
        await session.execute(
            update(Step)
            .where(Step.kind == StepKind.ADVISE)
            .values(status=StepStatus.PENDING, result=None, ended_at=None)
        )
        row = (await session.scalars(select(Step).where(Step.kind == StepKind.ADVISE))).one()
        step = table_rows.as_step(row)
        request = derived_events.iteration_step_event(
            await steps.iteration_query(step).execute(session), step
        )
    await bus.publish(request, resend=number)


async def all_ended(database: Database) -> bool:
    async with database.transaction() as session:
        statuses = await session.scalars(select(Step.status))
        return {*statuses} <= {StepStatus.COMPLETED, StepStatus.FAILED}
