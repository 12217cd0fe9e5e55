"""Group commit: what the steps of a process want to commit while a commit is in progress is committed together."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from shared.database.statements import RoundTrip

MAX_TRIPS: Final = 16
"""Trips of one commit."""


class RejectedError(Exception):
    """A statement has failed, and nothing of the group was written."""


@dataclass(frozen=True)
class _Waiting:
    agent_id: UUID
    trip: RoundTrip
    committed: asyncio.Future[None]


class GroupCommit:
    """Commits one trip, or one group of trips, at a time.

    A group has at most one trip of an agent and is in the order of the agents. Everything that a trip locks belongs to its
    agent, except for the rows of the merged statement, which locks them in its own order. So groups cannot deadlock.
    """

    def __init__(
        self,
        commit_alone: Callable[[RoundTrip], Awaitable[None]],
        commit_group: Callable[[Sequence[RoundTrip]], Coroutine[Any, Any, None]],
    ) -> None:
        """`commit_group` raises RejectedError if nothing was written, and any other error if that is unknown."""
        self._commit_alone = commit_alone
        self._commit_group = commit_group
        self._waiting: list[_Waiting] = []
        self._is_committing = False
        self._groups: set[asyncio.Task[None]] = set()

    async def write(self, agent_id: UUID, trip: RoundTrip) -> None:
        """Commits `trip`: alone if no commit is in progress, or if its group was rejected, so that an error affects only the
        trip that causes it. Raises what `commit_alone` or `commit_group` raises.

        A caller that is cancelled while its group is committed does not learn the outcome.
        """
        if self._is_committing:
            waiting = _Waiting(agent_id, trip, asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            try:
                await waiting.committed
            except RejectedError:
                await self._commit_alone(trip)
            return
        self._is_committing = True
        try:
            await self._commit_alone(trip)
        finally:
            self._commit_next()

    def _commit_next(self) -> None:
        group: dict[UUID, _Waiting] = {}
        later: list[_Waiting] = []
        for waiting in self._waiting:
            if waiting.committed.cancelled():
                continue
            if waiting.agent_id in group or len(group) >= MAX_TRIPS:
                later.append(waiting)
            else:
                group[waiting.agent_id] = waiting
        self._waiting = later
        self._is_committing = bool(group)
        if group:
            members = [group[agent_id] for agent_id in sorted(group)]
            task = asyncio.create_task(self._commit_group([waiting.trip for waiting in members]))
            self._groups.add(task)
            task.add_done_callback(partial(self._end_group, members))

    def _end_group(self, group: Sequence[_Waiting], task: asyncio.Task[None]) -> None:
        self._groups.discard(task)
        error = None if task.cancelled() else task.exception()
        for waiting in group:
            if task.cancelled():
                waiting.committed.cancel()
            elif not waiting.committed.cancelled():
                if error is None:
                    waiting.committed.set_result(None)
                else:
                    waiting.committed.set_exception(error)
        self._commit_next()
