"""Operations of agents and their owners: settings, conversation, inbox, deliveries and credentials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import select

from services.api.auth.dependencies import AgentAccess
from services.api.http.problem_details import ConflictError
from services.api.resources.agents import commands
from services.api.resources.conversation import model as conversation
from services.api.resources.inbox import model as inbox
from shared.accounts import authentication, credentials
from shared.accounts.authentication import Caller
from shared.accounts.secrets import hash_secret
from shared.agents import agents, configuration, contexts, conversations, memories
from shared.agents.configuration import ConfigurationInput
from shared.agents.contexts import StepGroup
from shared.billing.budgets import Caps
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import BrowserSession, Conversation, InboxItem
from shared.database.transaction import Transaction
from shared.enums import (
    AccessScope,
    CredentialKind,
    DestinationKind,
    InboxKind,
    MemoryKind,
    Phase,
    PromptMaker,
    StepKind,
)
from shared.notifications import deliveries, destinations
from shared.notifications.deliveries import DeliveryLease, DeliveryLostError
from shared.workflow.iterations import StepRow
from tests.support.api.access import agent_access
from tests.support.store_walk.operation import Again, Fault, Operation, Part
from tests.support.store_walk.world import MAX_USD, World, make_world

ADDRESS: Final = "https://hooks.example/a"
SHA256: Final = contexts.hash_text("a")
_UNHEARD: Final[Any] = SimpleNamespace(publish=lambda _: None)
"""In place of what publishes events after the commit."""


@dataclass(frozen=True)
class OwnerWorld(World):
    """The owner has asked two questions, and has a token, a sign-in link, a session and a destination. A delivery of
    advice is claimed.
    """

    memory: UUID
    question: StepRow
    token: UUID
    link: UUID
    link_secret: str
    session: UUID
    caller: Caller
    destination: UUID
    item: UUID
    delivery: DeliveryLease

    @property
    def owner(self) -> UUID:
        return self.lease.user_id

    @property
    def answer(self) -> UUID:
        return ids.answer_id(self.agent_id, 1)

    @property
    def params(self) -> Mapping[str, Any]:
        return {**super().params, "owner": self.owner, "item": self.item, "sha256": SHA256}

    def access(self, transaction: Transaction) -> AgentAccess:
        return agent_access(transaction, self.owner, self.agent_id)


async def _make_world(database: Database) -> OwnerWorld:
    world = await make_world(database)
    owner = world.lease.user_id
    async with database.transaction() as transaction:
        memory = await memories.remember(transaction, world.agent_id, MemoryKind.FACT, "A fact")
        question = await conversations.add_question(transaction, world.agent_id, "Why?")
        await conversations.add_question(transaction, world.agent_id, "How?")
        token, secret = await credentials.create_token(
            transaction, owner, name="own", scopes=[AccessScope.READ]
        )
        _, used_secret = await credentials.create_link(transaction, owner)
        await credentials.open_session(transaction, used_secret, "a browser")
        link, link_secret = await credentials.create_link(transaction, owner)
        session = await transaction.scalar(select(BrowserSession.id))
        caller = await authentication.authenticate(
            transaction, CredentialKind.TOKEN, hash_secret(secret)
        )
        destination = await destinations.create(
            transaction, owner, kind=DestinationKind.WEBHOOK, address=ADDRESS, agent_id=None
        )
        assert destination is not None
        await destinations.rotate_secret(
            transaction, destination, "old", overlap=timedelta(minutes=1)
        )
    item = uuid4()
    async with database.transaction() as transaction:
        await _insert_item(transaction, world, item)
        await deliveries.dispatch(transaction, 10)
        [delivery] = await _claim(transaction)
    assert isinstance(question, StepRow)
    assert session is not None
    assert caller is not None
    return OwnerWorld(
        **vars(world),
        memory=memory,
        question=question,
        token=token.id,
        link=link.id,
        link_secret=link_secret,
        session=session,
        caller=caller,
        destination=destination,
        item=item,
        delivery=delivery,
    )


async def _insert_item(transaction: Transaction, world: World, item_id: UUID) -> None:
    await transaction.insert(
        InboxItem,
        id=item_id,
        owner_id=world.lease.user_id,
        agent_id=world.agent_id,
        kind=InboxKind.ADVICE,
        title="HOLD: Wait",
        summary="Wait.",
    )


async def _claim(transaction: Transaction) -> Sequence[DeliveryLease]:
    return await deliveries.claim(
        transaction,
        "worker",
        seconds=60.0,
        limit=1,
        per_destination=1,
        running_by_destination={},
    )


async def _open_session(world: OwnerWorld, transaction: Transaction) -> None:
    await credentials.open_session(transaction, world.link_secret, "a browser")


async def _create_token(world: OwnerWorld, transaction: Transaction) -> None:
    await credentials.create_token(
        transaction, world.owner, name="other", scopes=[AccessScope.READ]
    )


async def _create_destination(world: OwnerWorld, transaction: Transaction) -> None:
    address = "https://hooks.example/other"
    kind = DestinationKind.WEBHOOK
    await destinations.create(
        transaction, world.owner, kind=kind, address=address, agent_id=world.agent_id
    )


async def _create_agent(world: OwnerWorld, transaction: Transaction) -> None:
    await agents.create_agent(
        transaction, world.owner, name="third", mission="Watch.", interval_seconds=60
    )


async def _request_configuration(world: OwnerWorld, transaction: Transaction) -> None:
    agent = await agents.lock_agent(transaction, world.agent_id)
    await configuration.request_configuration(
        transaction, agent, ConfigurationInput(mission="Watch other batteries.")
    )


async def _fail_configuration(world: OwnerWorld, transaction: Transaction) -> None:
    step: Any = SimpleNamespace(
        agent_id=world.agent_id, id=ids.step_id(world.agent_id, StepKind.CONFIGURE, 0)
    )
    await configuration.record_failure(transaction, step, "no")


async def _store_prompts(world: OwnerWorld, transaction: Transaction) -> None:
    agent = await agents.lock_agent(transaction, world.agent_id)
    await configuration.store_prompts(
        transaction, agent, {Phase.OBSERVER: "You plan otherwise."}, PromptMaker.OWNER
    )


async def _store_summary(world: OwnerWorld, transaction: Transaction) -> None:
    """With the conversation as it was loaded before."""
    of_agent = select(Conversation).where(Conversation.agent_id == world.agent_id)
    loaded = (await transaction.scalars(of_agent)).one()
    seen: Any = SimpleNamespace(id=loaded.id, summarized_turns=0)
    await conversations.store_summary(transaction, seen, "They asked.", 1)


async def _order_agent(world: OwnerWorld, transaction: Transaction) -> None:
    new = commands.NewAgent(mission="Watch the prices of lithium.", name="fourth")
    await commands.create_agent(world.access(transaction), new, Caps(MAX_USD, 10), _UNHEARD)


_UNDISPATCHED: Final = "update inbox_items set dispatched_at = null"
_NO_DELIVERY: Final = "delete from deliveries"
_DUE: Final = "update deliveries set next_attempt_at = clock_timestamp()"
_FAILED: Final = "update deliveries set status = 'failed', ended_at = clock_timestamp()"
_RETRIED: Final = "update deliveries set retry_requested_at = clock_timestamp()"
_USED_LONG_AGO: Final = "update api_tokens set last_used_at = '2026-01-01'"
_ANSWERED: Final = """
update steps set status = 'completed', ended_at = clock_timestamp() where kind = 'converse' and status = 'pending'
"""
_UNANSWERED: Final = (
    """update steps set status = 'failed', ended_at = clock_timestamp(), error = 'no', requested_at = clock_timestamp()
    where kind = 'converse' and status = 'pending'""",
)
_FAILING: Final = """
insert into iterations (id, agent_id, number, why, status, stage, deadline_at, ended_at, errors)
select gen_random_uuid(), :agent, number, 'due', 'failed', 'ended', clock_timestamp(), clock_timestamp(), '["no"]'
from generate_series(2, 9) as number
"""
_READY_LATER: Final = "update agents set next_run_at = '2100-01-01' where id = :agent"
_CONFIGURING: Final = (
    "update agents set configurations_ordered = 1, status = 'configuring' where id = :agent"
)
_INACTIVE: Final = "update destinations set active = false, stop_reason = 'no'"
_DECIDED: Final = "update inbox_items set outcome = 'accepted', answered_at = clock_timestamp()"
_PAUSED: Final = "update agents set active = false where id = :agent"

_OPERATIONS: Final[Mapping[Any, Any]] = {
    # agents
    agents.ensure_user: Operation(lambda w, t: agents.ensure_user(t, "somebody")),
    agents.create_agent: Operation(_create_agent, again=psycopg.errors.UniqueViolation),
    agents.delete_agent: Operation(lambda w, t: agents.delete_agent(t, w.agent_id)),
    agents.wake: Operation(query=lambda w: agents.wake(w.agent_id), prepare=[_READY_LATER]),
    agents.end_backoff: Operation(
        query=lambda w: agents.end_backoff(w.agent_id), prepare=[_READY_LATER, _FAILING]
    ),
    configuration.request_configuration: Operation(_request_configuration, again=Again.WRITES),
    configuration.record_failure: Operation(_fail_configuration, prepare=[_CONFIGURING]),
    configuration.store_prompts: Operation(_store_prompts),
    commands.create_agent: Operation(_order_agent, again=ConflictError),
    commands.configure: Operation(
        lambda w, t: commands.configure(w.access(t), _UNHEARD), again=Again.WRITES
    ),
    commands.edit_prompt: Operation(
        lambda w, t: commands.edit_prompt(w.access(t), Phase.OBSERVER, "You plan.", versions=None)
    ),
    commands.change_agent: Operation(
        lambda w, t: commands.change_agent(
            w.access(t), commands.ChangedAgent(interval_seconds=120), None
        )
    ),
    commands.delete_agent: Operation(lambda w, t: commands.delete_agent(w.access(t))),
    commands.pause_agent: Operation(lambda w, t: commands.pause_agent(w.access(t))),
    commands.resume_agent: Operation(
        lambda w, t: commands.resume_agent(w.access(t)), prepare=[_PAUSED]
    ),
    commands.run_agent: Operation(lambda w, t: commands.run_agent(w.access(t))),
    contexts.pinning: Operation(
        query=lambda w: contexts.pinning(
            StepGroup(w.iteration.id, StepKind.QUERY, 0), w.agent_id, SHA256
        )
    ),
    # conversation
    conversations.add_question: Operation(
        lambda w, t: conversations.add_question(t, w.agent_id, "When?"), again=Again.WRITES
    ),
    conversations.request_next_answer: Operation(
        lambda w, t: conversations.request_next_answer(t, w.question), prepare=[_ANSWERED]
    ),
    conversations.store_partial_answer: Operation(
        lambda w, t: conversations.store_partial_answer(
            t, w.answer, draft=1, content="Because", tool_uses=[]
        )
    ),
    conversations.complete_answer: Operation(
        lambda w, t: conversations.complete_answer(t, w.answer, [])
    ),
    conversations.store_summary: Operation(_store_summary),
    conversation.ask_question: Operation(
        lambda w, t: conversation.ask_question(w.access(t), "When?", _UNHEARD),
        again=Again.WRITES,
    ),
    conversation.retry_message: Operation(
        lambda w, t: conversation.retry_message(w.access(t), w.answer),
        again=ConflictError,
        prepare=_UNANSWERED,
    ),
    conversation.add_memory: Operation(
        lambda w, t: conversation.add_memory(w.access(t), conversation.NewMemory(content="A wish"))
    ),
    conversation.forget_memory: Operation(
        lambda w, t: conversation.forget_memory(w.access(t), w.memory)
    ),
    memories.remember: Operation(
        lambda w, t: memories.remember(t, w.agent_id, MemoryKind.WISH, "A wish")
    ),
    memories.forget: Operation(lambda w, t: memories.forget(t, w.agent_id, w.memory)),
    # inbox
    inbox.mark_read: Operation(lambda w, t: inbox.mark_read(w.access(t), w.item)),
    inbox.mark_unread: Operation(
        lambda w, t: inbox.mark_unread(w.access(t), w.item),
        prepare=["update inbox_items set read_at = clock_timestamp()"],
    ),
    inbox.mark_all_read: Operation(lambda w, t: inbox.mark_all_read(w.access(t))),
    inbox.accept: Operation(lambda w, t: inbox.accept(w.access(t), w.item), prepare=[_READY_LATER]),
    inbox.dismiss: Operation(lambda w, t: inbox.dismiss(w.access(t), w.item)),
    inbox.reopen: Operation(lambda w, t: inbox.reopen(w.access(t), w.item), prepare=[_DECIDED]),
    inbox.snooze: Operation(
        lambda w, t: inbox.snooze(
            w.access(t), w.item, inbox.NewSnooze(until=datetime.now(UTC) + timedelta(days=1))
        )
    ),
    inbox.give_feedback: Operation(
        lambda w, t: inbox.give_feedback(
            w.access(t), w.item, inbox.NewFeedback(useful=True, text="Good.")
        )
    ),
    # deliveries
    deliveries.dispatch: Operation(
        lambda w, t: deliveries.dispatch(t, 10), prepare=[_UNDISPATCHED, _NO_DELIVERY]
    ),
    deliveries.claim: Operation(lambda w, t: _claim(t), prepare=[_DUE]),
    deliveries.create_test: Operation(
        lambda w, t: deliveries.create_test(t, w.destination), again=Again.WRITES
    ),
    deliveries.request_retry: Operation(
        lambda w, t: deliveries.request_retry(t, w.delivery.delivery_id), prepare=[_FAILED]
    ),
    deliveries.reset_retried: Operation(
        lambda w, t: deliveries.reset_retried(t), prepare=[_FAILED, _RETRIED]
    ),
    deliveries.record_delivered: Operation(
        lambda w, t: deliveries.record_delivered(t, w.delivery, 200), again=DeliveryLostError
    ),
    deliveries.record_failed: Operation(
        lambda w, t: deliveries.record_failed(t, w.delivery, "no", 410), again=DeliveryLostError
    ),
    deliveries.record_failed_attempt: Operation(
        lambda w, t: deliveries.record_failed_attempt(t, w.delivery, "no", 503, delay_seconds=9.0),
        again=Again.WRITES,
    ),
    deliveries.release: Operation(lambda w, t: deliveries.release(t, w.delivery)),
    destinations.create: Operation(_create_destination),
    destinations.set_active: Operation(
        lambda w, t: destinations.set_active(t, w.destination, active=True), prepare=[_INACTIVE]
    ),
    destinations.stop: Operation(lambda w, t: destinations.stop(t, w.destination, "no")),
    destinations.delete: Operation(lambda w, t: destinations.delete(t, w.destination)),
    destinations.rotate_secret: Operation(
        lambda w, t: destinations.rotate_secret(
            t, w.destination, "new", overlap=timedelta(minutes=1)
        ),
        again=Again.WRITES,
    ),
    # credentials
    authentication.record_use: Operation(
        lambda w, t: authentication.record_use(t, w.caller), prepare=[_USED_LONG_AGO]
    ),
    credentials.ensure_owner: Operation(lambda w, t: credentials.ensure_owner(t, "somebody")),
    credentials.create_user: Operation(
        lambda w, t: credentials.create_user(t, name="other", email=None, operator=False),
        again=psycopg.errors.UniqueViolation,
    ),
    credentials.set_disabled: Operation(
        lambda w, t: credentials.set_disabled(t, w.owner, disabled=True)
    ),
    credentials.delete_user: Operation(lambda w, t: credentials.delete_user(t, w.owner)),
    credentials.create_token: Operation(_create_token, again=Again.WRITES),
    credentials.store_own_token: Operation(
        lambda w, t: credentials.store_own_token(t, w.owner, "a token")
    ),
    credentials.revoke_token: Operation(lambda w, t: credentials.revoke_token(t, w.owner, w.token)),
    credentials.create_link: Operation(
        lambda w, t: credentials.create_link(t, w.owner), again=Again.WRITES
    ),
    credentials.delete_link: Operation(lambda w, t: credentials.delete_link(t, w.link)),
    credentials.open_session: Operation(_open_session),
    credentials.end_session: Operation(lambda w, t: credentials.end_session(t, w.owner, w.session)),
}
_READS: Final = {
    agents.find_free_name,
    agents.get_agent,
    agents.list_due,
    agents.lock_agent,
    authentication.authenticate,
    authentication.find_valid_digests,
    authentication.is_still_valid,
    configuration.phases_edited_since,
    configuration.provisional_name,
    contexts.as_difference,
    contexts.load_texts,
    contexts.pinned_text,
    contexts.remember,
    conversation.find_message,
    conversation.list_memories,
    conversation.list_messages,
    conversation.show_message,
    conversations.find_requested_answer,
    conversations.get_conversation,
    conversations.list_turns,
    credentials.find_active_references,
    credentials.find_user,
    credentials.find_valid_links,
    credentials.has_never_signed_in,
    deliveries.needs_work,
    destinations.lock_and_count,
    destinations.secrets,
    inbox.count_by_view,
    inbox.get_inbox_item,
    inbox.list_inbox_items,
    memories.list_active,
}
_STORES: Final = (
    agents,
    configuration,
    contexts,
    conversations,
    memories,
    deliveries,
    destinations,
    credentials,
    authentication,
    commands,
    conversation,
    inbox,
)

OWNERS: Final = Part(
    "owners",
    _make_world,
    _STORES,
    _OPERATIONS,
    _READS,
    frozenset(),
    short_faults=[Fault.LOST_BEFORE],
)
