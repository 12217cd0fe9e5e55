"""Whoever is told to end ends, even where something swallowed the word."""

import asyncio
from contextlib import suppress

import pytest

from shared.runtime import background
from shared.runtime.background import cancel_and_wait, log_and_continue, raise_if_cancelled


async def deaf(times: int, began: asyncio.Event) -> None:
    """Swallows that many cancellations, as `asyncio.wait_for` may one."""
    began.set()
    for _ in range(times):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "CANCEL_RETRY_SECONDS", 0.01)
    began = asyncio.Event()
    task = asyncio.create_task(deaf(3, began))
    await began.wait()
    async with asyncio.timeout(10):
        await cancel_and_wait(task)
    assert task.cancelled()


async def test_what_broke_a_task_is_raised_at_its_end() -> None:
    async def breaks() -> None:
        raise ValueError("broken")

    task = asyncio.create_task(breaks())
    await asyncio.wait({task})
    with pytest.raises(ValueError, match="broken"):
        await cancel_and_wait(task)


async def test_a_swallowed_cancellation_is_heeded_later() -> None:
    began = asyncio.Event()
    went_on = False

    async def start() -> None:
        nonlocal went_on
        raise_if_cancelled()  # nobody has cancelled it yet
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise_if_cancelled()
        went_on = True

    task = asyncio.create_task(start())
    await began.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not went_on


async def test_a_rhythm_ends_though_its_work_swallowed_the_word() -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def beats() -> None:
        while True:
            await log_and_continue(work, "again")

    task = asyncio.create_task(beats())
    await began.wait()
    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait({task})
    assert task.cancelled()
