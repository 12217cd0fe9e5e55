"""A server that reads only a part of a request is found by its count of tokens; other ways to count are no reason."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select

from shared.billing import reservations
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call
from shared.enums import Phase
from shared.errors import PermanentError
from shared.llm.answers import parse_usage
from shared.llm.context_limit import CONTEXT_CUT, LimitedProvider
from shared.llm.ledgered_model import read_answer
from shared.llm.messages import ChatAnswer, ChatRequest, assistant_message, encode_json
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model, OnDelta
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration

ENGLISH = "The refinery in Harjavalta produced 12 kilotonnes of nickel sulphate in 2025. "
CHINESE = "哈尔亚瓦尔塔精炼厂去年生产了一万二千吨硫酸镍。"
BYTES_PER_TOKEN = {ENGLISH: 4.1, CHINESE: 2.6}


@dataclass
class CountingProvider:
    """A model whose server counts and keeps tokens in its own way."""

    text: str
    usages: list[Any]
    """Tokens reported per token sent, or fields of the usage, for each answer."""
    sent: list[ChatRequest] = field(default_factory=list)

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            self.sent.append(request)
            tokens = len(encode_json(request.body)) / BYTES_PER_TOKEN[self.text]
            usage = self.usages[len(self.sent) - 1]
            fields = {
                "completion_tokens": 5,
                **(
                    usage(tokens)
                    if callable(usage)
                    else {"prompt_tokens": round(tokens * usage)}
                    if isinstance(usage, float)
                    else {"prompt_tokens": usage}
                ),
            }
            counted = parse_usage({"usage": fields})
            return ChatAnswer(
                assistant_message("Noted.", []),
                "stop",
                counted.input_tokens,
                counted.output_tokens,
                counted.cached_tokens,
                read_tokens=counted.read_tokens,
            )

    async def close(self) -> None:
        return


@dataclass
class Case:
    database: Database
    settings: Settings
    agent: Agent
    lease: Lease

    def model(self, provider: Any) -> Model:
        return create_model(self.settings, self.database, provider)


@pytest.fixture
async def case(settings: Settings, database: Database) -> Case:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claim(session, started.observe.id, "test")
    assert isinstance(claim, Claimed)
    return Case(database, settings, agent, claim.lease)


async def ask(case: Case, provider: Any, text: str, tokens: list[int]) -> None:
    """A conversation whose messages are about so long."""
    model = case.model(provider)
    run = PhaseRun(model, case.lease, case.agent, Phase.OBSERVER, message(text, tokens[0]))
    request = await run.begin()
    for number in range(len(tokens)):
        answer = (await run.model.answer(request, read_answer)).answer
        if number + 1 < len(tokens):
            following = {"role": "user", "content": message(text, tokens[number + 1])}
            request = request.following(answer.message, following)


def message(text: str, tokens: int) -> str:
    return text * round(tokens * BYTES_PER_TOKEN[text] / len(text.encode()))


def cached(share: float, *names: str) -> Any:
    """A usage that counts the rest alone, and names what was read from the cache in one field or another."""

    def usage(tokens: float) -> dict[str, Any]:
        fields: dict[str, Any] = {"prompt_tokens": round(tokens * (1 - share))}
        count: Any = round(tokens * share)
        for name in reversed(names[1:]):
            count = {name: count}
        return {**fields, names[0]: count}

    return usage


CUT: dict[str, tuple[str, list[int], list[Any]]] = {
    "first call": (ENGLISH, [4000], [0.4]),
    "a third": (ENGLISH, [3300], [1000]),
    "an eighth": (ENGLISH, [3300], [400]),
    "ratio is known": (ENGLISH, [700, 300, 300, 5000], [1.0, 1.0, 1.0, 0.45]),
    "conversation grows": (ENGLISH, [1500, 1200, 6000], [1.0, 1.0, 2048]),
    "Chinese": (CHINESE, [700, 300, 300, 5000], [1.0, 1.0, 1.0, 0.4]),
    "cache of a part": (
        ENGLISH,
        [4000],
        [lambda _: {"prompt_tokens": 900, "prompt_cache_hit_tokens": 600}],
    ),
}
WHOLE: dict[str, tuple[str, list[int], list[Any]]] = {
    "whole": (ENGLISH, [4000, 4000], [1.0, 1.0]),
    "more than half": (ENGLISH, [4000], [0.6]),
    "Chinese": (CHINESE, [4000, 2000], [1.0, 1.0]),
    "none": (ENGLISH, [4000], [lambda _: {}]),
    "zero": (ENGLISH, [4000], [0]),
    "constant": (ENGLISH, [4000], [10]),
    "short": (ENGLISH, [300], [0.3]),
    "cache apart, OpenAI": (
        ENGLISH,
        [4000],
        [cached(0.9, "prompt_tokens_details", "cached_tokens")],
    ),
    "cache apart, Anthropic": (ENGLISH, [4000], [cached(0.9, "cache_read_input_tokens")]),
    "cache apart, DeepSeek": (ENGLISH, [4000], [cached(0.9, "prompt_cache_hit_tokens")]),
    "cache left out": (ENGLISH, [4000, 1000, 1000], [1.0, 1000, 1000]),
    "cache left out of a grown one": (ENGLISH, [4000, 6000], [1.0, 6000]),
    "the same once more": (ENGLISH, [4000, 300], [1.0, 300]),
}


@pytest.mark.parametrize(("text", "tokens", "usages"), CUT.values(), ids=CUT)
async def test_an_answer_to_less_than_half_of_a_request_is_not_used(
    case: Case, text: str, tokens: list[int], usages: list[Any]
) -> None:
    provider = CountingProvider(text, usages)
    with pytest.raises(PermanentError, match="its context is about") as caught:
        await ask(case, provider, text, tokens)
    assert caught.value.code == CONTEXT_CUT
    assert "num_ctx" in str(caught.value)
    assert "VIGIL_MODEL_CONTEXT_TOKENS" in str(caught.value)
    assert len(provider.sent) == len(usages), "those before were used"
    async with case.database.transaction() as session:
        await reservations.release_hold(case.lease.step_id).execute(session)
        calls = list(await session.scalars(select(Call).order_by(Call.started_at)))
        days = list(await session.scalars(select(BudgetDay)))
    assert calls[-1].answer is None
    assert "its context is about" in calls[-1].failures[-1]["error"]
    assert {day.reserved_usd for day in days} == {Decimal(0)}, "it is booked as it was counted"


@pytest.mark.parametrize(("text", "tokens", "usages"), WHOLE.values(), ids=WHOLE)
async def test_no_way_to_count_what_was_read_is_taken_for_a_cut(
    case: Case, text: str, tokens: list[int], usages: list[Any]
) -> None:
    provider = CountingProvider(text, usages)
    await ask(case, provider, text, tokens)
    assert len(provider.sent) == len(usages)


async def test_what_was_left_out_on_purpose_is_no_cut(case: Case) -> None:
    """The request is longer than the context that the settings state."""
    provider = CountingProvider(ENGLISH, [1.0])
    await ask(
        case, LimitedProvider(provider, 3_000, "VIGIL_MODEL_CONTEXT_TOKENS"), ENGLISH, [20_000]
    )
    assert len(encode_json(provider.sent[0].body)) < 10_000
