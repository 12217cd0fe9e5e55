"""A cancelled task ends, even if something swallowed the cancellation."""

import asyncio
from contextlib import suppress

import pytest

from shared.runtime import background
from shared.runtime.background import cancel_and_wait, log_and_continue, raise_if_cancelled


async def swallow_cancellations(times: int, started: asyncio.Event) -> None:
    """Swallow this many cancellations, as `asyncio.wait_for` may swallow one."""
    started.set()
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "CANCEL_RETRY_SECONDS", 0.01)
    started = asyncio.Event()
    task = asyncio.create_task(swallow_cancellations(3, started))
    await started.wait()
    async with asyncio.timeout(10):
        await cancel_and_wait(task)
    assert task.cancelled()


async def test_the_error_of_a_task_is_raised_when_it_is_cancelled() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    with pytest.raises(ValueError, match="broken"):
        await cancel_and_wait(task)


async def test_a_swallowed_cancellation_is_raised_later() -> None:
    started = asyncio.Event()
    continued = False

    async def work() -> None:
        nonlocal continued
        raise_if_cancelled()  # not cancelled yet
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise_if_cancelled()
        continued = True

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not continued


async def test_a_background_loop_ends_even_if_its_work_swallowed_the_cancellation() -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def run_loop() -> None:
        while True:
            await log_and_continue(work, "again")

    task = asyncio.create_task(run_loop())
    await started.wait()
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait({task})
    assert task.cancelled()
