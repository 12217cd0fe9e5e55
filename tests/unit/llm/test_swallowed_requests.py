"""Requests that a server swallows: each has its own time limit, whatever becomes of the others."""

import asyncio
from itertools import count

import pytest

from shared.llm.answer_errors import AnswerTimeoutError
from shared.llm.answers import Received
from shared.llm.model_server import QUEUED_WAITS, Limits, Patience

LIMITS = Limits(first_token=0.3, total=30.0)
OTHERS_SECONDS = 0.05
"""Between two answers to other requests."""


@pytest.mark.parametrize(
    ("is_serial", "longest"), [(False, LIMITS.first_token), (True, QUEUED_WAITS * 0.3)]
)
async def test_answers_to_other_requests_prolong_the_wait_for_a_serial_server_alone(
    *, is_serial: bool, longest: float
) -> None:
    patience = Patience("s", LIMITS, Received("s"), streams=True, is_serial=is_serial)
    clock = asyncio.get_running_loop().time

    async def answer_others() -> None:
        for _ in count():
            await asyncio.sleep(OTHERS_SECONDS)
            patience.server_answers()

    others = asyncio.create_task(answer_others())
    begun_at = clock()
    with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
        await patience.wait_for(asyncio.sleep(60))
    others.cancel()
    assert longest - 0.02 <= clock() - begun_at < longest + 10
    if is_serial:
        assert clock() - begun_at > 2 * LIMITS.first_token


@pytest.mark.parametrize(("is_serial", "longest"), [(False, 0.3), (True, QUEUED_WAITS * 0.3)])
async def test_comments_of_a_stream_do_not_prolong_the_wait_for_ever(
    *, is_serial: bool, longest: float
) -> None:
    received = Received("s")
    patience = Patience("s", LIMITS, received, streams=True, is_serial=is_serial)
    clock = asyncio.get_running_loop().time
    begun_at = clock()

    async def read_comments() -> None:
        while clock() - begun_at < longest + 10:
            await patience.wait_for(asyncio.sleep(OTHERS_SECONDS))
            received.take(b": keep-alive\n\n")

    with pytest.raises(AnswerTimeoutError, match="VIGIL_LLM_FIRST_TOKEN_SECONDS"):
        await read_comments()
    assert longest - 0.02 <= clock() - begun_at < longest + 10
