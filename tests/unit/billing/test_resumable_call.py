"""Looking for what is under way: patient with failed looks, and nothing is ordered for them."""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from shared.billing import resumable_call
from shared.billing.resumable_call import (
    MAX_FAILED_POLLS,
    CallLostError,
    ResumableCall,
    poll_until_done,
)
from shared.errors import PermanentError, TransientError


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between looks, which take no time here."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("shared.billing.resumable_call.asyncio.sleep", note)
    return waits


class Service:
    """Gives these in turn: raises errors, returns the rest."""

    def __init__(self, *outcomes: object) -> None:
        self._outcomes: Iterator[object] = iter(outcomes)
        self.events: list[str] = []
        self.called, self.answers = asyncio.Event(), asyncio.Event()
        self.answers.set()

    async def look(self) -> object:
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def order(self, key: str) -> str:
        self.events.append(f"order {key}")
        self.called.set()
        await self.answers.wait()
        return "new"

    async def keep(self, reference: str) -> None:
        self.events.append(f"keep {reference}")

    async def collect(self, reference: str) -> object:
        self.events.append(f"collect {reference}")
        return await self.look()

    async def ask(self, reference: str | None) -> object:
        flight = ResumableCall("key", reference, self.keep, nullcontext)
        return await flight.resume_or_start(self.order, self.collect)


async def test_looks_become_rarer(waited: list[float]) -> None:
    assert await poll_until_done(Service(*[None] * 6, "found").look) == "found"
    assert waited == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


async def test_failed_looks_are_borne_and_the_wait_that_is_asked_for_is_kept(
    waited: list[float],
) -> None:
    trouble = TransientError("busy", retry_in_seconds=30)
    assert await poll_until_done(Service(trouble, None, "found").look) == "found"
    assert waited == [0.5, 30, 5.0]


async def test_only_too_many_failed_looks_in_a_row_are_an_error() -> None:
    trouble = [TransientError("away")] * MAX_FAILED_POLLS
    assert await poll_until_done(Service(*trouble, None, *trouble, "found").look) == "found"
    with pytest.raises(TransientError, match="away"):
        await poll_until_done(Service(*trouble, TransientError("away"), "never seen").look)


@pytest.mark.parametrize("error", [CallLostError("gone"), PermanentError("llm_key", "wrong key")])
async def test_what_no_other_look_can_mend_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        await poll_until_done(Service(error, "never seen").look)


async def test_a_reference_is_kept_before_anything_is_collected_by_it() -> None:
    service = Service("answer")
    assert await service.ask(None) == "answer"
    assert service.events == ["order key", "keep new", "collect new"]


async def test_what_has_a_reference_is_collected_and_not_ordered() -> None:
    service = Service("answer")
    assert await service.ask("old") == "answer"
    assert service.events == ["collect old"]


async def test_what_is_lost_is_ordered_again_under_another_key() -> None:
    service = Service(CallLostError("gone"), "answer")
    assert await service.ask("old") == "answer"
    assert service.events == ["collect old", "order key-after-old", "keep new", "collect new"]


async def test_what_is_lost_again_is_not_ordered_for_ever() -> None:
    service = Service(CallLostError("gone"), CallLostError("gone again"))
    with pytest.raises(CallLostError, match="again"):
        await service.ask("old")


async def cancelled_while_ordering(service: Service, *, is_answered: bool) -> None:
    service.answers.clear()
    asking = asyncio.create_task(service.ask(None))
    await service.called.wait()
    asking.cancel()
    if is_answered:
        service.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_who_is_told_to_stop_stays_for_the_reference_of_what_it_has_ordered() -> None:
    service = Service("never collected")
    await cancelled_while_ordering(service, is_answered=True)
    assert service.events == ["order key", "keep new"]


async def test_it_does_not_stay_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_call, "CANCELLED_WAIT_SECONDS", 0.01)
    service = Service("never collected")
    await cancelled_while_ordering(service, is_answered=False)
    assert service.events == ["order key"]
