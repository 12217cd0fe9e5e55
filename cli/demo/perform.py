"""Lets an agent run so many iterations, one after the other."""

from collections.abc import Iterator

from cli.watching.watch import Watch
from shared.schemas.base import AgentDetails, IterationDetails


def perform(watch: Watch, agent: AgentDetails, iterations: int) -> Iterator[IterationDetails]:
    """Each iteration as it ended. Stops early where time is up, or where nothing so far has come to anything."""
    came_to_something = False
    for number in range(1, iterations + 1):
        if number > 1:  # the first runs because the agent is new
            watch.client.order(str(agent.id), "run")
        ended = watch.iteration(agent.id, number, of=iterations)
        if ended is None:
            return
        yield ended
        came_to_something = came_to_something or ended.status == "completed"
        if not came_to_something:
            return
