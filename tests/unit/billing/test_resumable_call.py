"""Polling a resumable call: failed polls are tolerated, and the call is not started again for them."""

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
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits between polls instead of sleeping."""
    seconds_waited: list[float] = []

    async def record(seconds: float) -> None:
        seconds_waited.append(seconds)

    monkeypatch.setattr("shared.billing.resumable_call.asyncio.sleep", record)
    return seconds_waited


class Service:
    """Produces the outcomes in turn: raises errors, returns the others."""

    def __init__(self, *outcomes: object) -> None:
        self._outcomes: Iterator[object] = iter(outcomes)
        self.events: list[str] = []
        self.started, self.answers = asyncio.Event(), asyncio.Event()
        self.answers.set()

    async def poll(self) -> object:
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def start(self, key: str) -> str:
        self.events.append(f"start {key}")
        self.started.set()
        await self.answers.wait()
        return "new"

    async def store_reference(self, reference: str) -> None:
        self.events.append(f"store {reference}")

    async def collect(self, reference: str) -> object:
        self.events.append(f"collect {reference}")
        return await self.poll()

    async def complete(self, reference: str | None) -> object:
        call = ResumableCall("key", reference, self.store_reference, nullcontext)
        return await call.resume_or_start(self.start, self.collect)


async def test_polls_become_less_frequent(waits: list[float]) -> None:
    assert await poll_until_done(Service(*[None] * 6, "found").poll) == "found"
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


async def test_failed_polls_are_tolerated_and_the_requested_wait_is_respected(
    waits: list[float],
) -> None:
    error = TransientError("busy", retry_in_seconds=30)
    assert await poll_until_done(Service(error, None, "found").poll) == "found"
    assert waits == [0.5, 30, 5.0]


async def test_only_too_many_consecutive_failed_polls_are_an_error() -> None:
    errors = [TransientError("away")] * MAX_FAILED_POLLS
    assert await poll_until_done(Service(*errors, None, *errors, "found").poll) == "found"
    with pytest.raises(TransientError, match="away"):
        await poll_until_done(Service(*errors, TransientError("away"), "never seen").poll)


@pytest.mark.parametrize("error", [CallLostError("gone"), PermanentError("llm_key", "wrong key")])
async def test_errors_that_a_poll_cannot_fix_are_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        await poll_until_done(Service(error, "never seen").poll)


async def test_the_reference_is_stored_before_the_result_is_collected() -> None:
    service = Service("answer")
    assert await service.complete(None) == "answer"
    assert service.events == ["start key", "store new", "collect new"]


async def test_a_call_with_a_reference_is_collected_and_not_started() -> None:
    service = Service("answer")
    assert await service.complete("old") == "answer"
    assert service.events == ["collect old"]


async def test_a_lost_call_is_started_again_with_another_key() -> None:
    service = Service(CallLostError("gone"), "answer")
    assert await service.complete("old") == "answer"
    assert service.events == ["collect old", "start key-after-old", "store new", "collect new"]


async def test_a_call_lost_twice_is_not_started_again() -> None:
    service = Service(CallLostError("gone"), CallLostError("gone again"))
    with pytest.raises(CallLostError, match="again"):
        await service.complete("old")


async def cancel_while_starting(service: Service, *, is_answered: bool) -> None:
    service.answers.clear()
    task = asyncio.create_task(service.complete(None))
    await service.started.wait()
    task.cancel()
    if is_answered:
        service.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_waits_for_the_reference_of_the_started_call() -> None:
    service = Service("never collected")
    await cancel_while_starting(service, is_answered=True)
    assert service.events == ["start key", "store new"]


async def test_a_cancelled_call_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_call, "CANCELLED_WAIT_SECONDS", 0.01)
    service = Service("never collected")
    await cancel_while_starting(service, is_answered=False)
    assert service.events == ["start key"]
