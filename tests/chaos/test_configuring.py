"""The assistant is killed at each point of making an agent; the agent is as if nothing had been."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pytest

from shared.agents import configuration as agent_configuration
from shared.enums import Phase
from shared.failpoints import Failpoint
from shared.graph.scope import GraphScope
from tests.support.canonical_graph import canonical
from tests.support.chaos.visit import Visitor
from tests.support.configuring import configured, order_agent, reread

pytestmark = pytest.mark.chaos

LLM_CALLS: Final = 2
ONCE: Final = (
    Failpoint.MESSAGE_RECEIVED,
    Failpoint.LEASE_TAKEN,
    Failpoint.STATE_WRITTEN,
    Failpoint.STATE_COMMITTED,
    Failpoint.EVENTS_PUBLISHED,
)
AT_EACH_CALL: Final = (
    Failpoint.CALL_UNSENT,
    Failpoint.CALL_ANSWERED,
    Failpoint.CALL_RECORDED,
)
SHORT: Final = {(Failpoint.CALL_RECORDED, 0), (Failpoint.STATE_WRITTEN, 0)}


@dataclass(frozen=True)
class Made:
    """What an agent was made of the mission, the same for every owner."""

    name: str
    status: str
    prompts: dict[Phase, str]
    versions: int
    graph: Any
    """Its types, in canonical form."""


def cases() -> Iterator[object]:
    points = [(point, 0) for point in ONCE]
    points += [(point, skip) for point in AT_EACH_CALL for skip in range(LLM_CALLS)]
    for point, skip in points:
        marks = () if (point, skip) in SHORT else pytest.mark.slow
        yield pytest.param(point, skip, id=f"{point}-{skip}", marks=marks)


@pytest.fixture(autouse=True)
def _nothing_stays_armed(visitor: Visitor) -> Iterator[None]:
    yield
    visitor.house.disarm()


async def made(visitor: Visitor, *, killed: bool) -> tuple[Made, int]:
    """An agent of an owner of its own; and the calls that were in flight when the assistant died."""
    visitor.sandbox.reset()
    ordered, asked = await order_agent(visitor.database, owner=f"owner {uuid4()}")
    await visitor.bus.publish(asked)
    in_flight = await visitor.in_flight_at_death("assistant") if killed else 0
    await configured(visitor.database, ordered)
    agent = await reread(visitor.database, ordered)
    async with visitor.database.transaction() as session:
        graph = await canonical(session, GraphScope(agent.owner_id, agent.id))
    found = agent_configuration.prompts_by_phase(agent)
    return Made(agent.name, agent.status, found, agent.prompts_version, graph), in_flight


@pytest.fixture(scope="module")
async def as_it_should_be(visitor: Visitor) -> Made:
    whole, _ = await made(visitor, killed=False)
    assert (whole.status, whole.versions, len(whole.prompts)) == ("ready", 1, 6)
    assert len(whole.graph["node_types"]) >= 8
    assert visitor.sandbox.billed()["llm"] == LLM_CALLS
    return whole


@pytest.mark.parametrize(("point", "skip"), list(cases()))
async def test_killed_at(
    visitor: Visitor, as_it_should_be: Made, point: Failpoint, skip: int
) -> None:
    visitor.house.arm("assistant", point, skip=skip)
    found, in_flight = await made(visitor, killed=True)
    assert found == as_it_should_be
    assert visitor.sandbox.repeated() <= in_flight
    assert visitor.sandbox.billed()["llm"] == LLM_CALLS + visitor.sandbox.repeated()
