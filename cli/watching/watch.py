"""One iteration of an agent, told until it ends."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from cli.client.client import Client
from cli.errors import AwayError
from cli.watching.narrator import Narrator
from cli.watching.nudges import Nudges
from shared.schemas.base import ConclusionView, IterationDetails

LOOK_SECONDS: Final = 0.4
"""How often the state is read where no event says that there is news."""


@dataclass(frozen=True)
class Watch:
    """`deadline` is a reading of the monotonic clock; after it nothing is waited for any more."""

    client: Client
    nudges: Nudges
    narrator: Narrator
    deadline: float
    meanwhile: Callable[[], object] = lambda: None
    """Called between two looks."""

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def iteration(
        self, agent_id: UUID, number: int, of: int | None = None
    ) -> IterationDetails | None:
        """The iteration as it ended; None where time was up first. `of` is how many there will be, where known."""
        self.narrator.begin(number, of)
        before = self.client.graph(str(agent_id), limit=0).counts
        try:
            ended = self._until_it_ends(agent_id, number)
        finally:
            self.narrator.stop()
        if ended is not None:
            self.narrator.end(ended, before, self.client.graph(str(agent_id), limit=0).counts)
        return ended

    def _until_it_ends(self, agent_id: UUID, number: int) -> IterationDetails | None:
        while not self.out_of_time:
            try:
                iteration = self._read(agent_id, number)
                if iteration is not None:
                    self.narrator.tell(iteration, lambda: self._conclusions(agent_id))
                    if iteration.ended_at is not None:
                        return iteration
            except AwayError:
                self.narrator.wait_for_api()
            self.meanwhile()
            self.nudges.wait(LOOK_SECONDS)
        return None

    def _read(self, agent_id: UUID, number: int) -> IterationDetails | None:
        for newest in self.client.iterations(str(agent_id), limit=3):
            if newest.number == number:
                return self.client.iteration(newest.id)
        return None

    def _conclusions(self, agent_id: UUID) -> Sequence[ConclusionView]:
        return [*self.client.analyses(str(agent_id)), *self.client.advice(str(agent_id))]
