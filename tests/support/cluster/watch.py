"""Agents with scripted plans, and the check that each step was done once."""

from collections import Counter
from itertools import count
from typing import Any, Final
from uuid import uuid4

from shared.schemas.base import AgentDetails, IterationDetails
from tests.support.cluster.stack import Stack, wait_for

LONG_SECONDS: Final = 7 * 24 * 3600
"""An interval longer than any test: iterations are requested."""

PLANS: Final = 50
"""More than any test has iterations, with those that are planned again after a kill."""

STEP_EVENTS: Final = ("requested", "completed")

SUBJECTS: Final = ("Northvolt", "Halden", "Orran", "lithium supply", "battery makers")
"""Subjects of tests/corpus."""


class Watch:
    """One agent, named by a word that no other mission contains."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.word = f"w{uuid4().hex[:10]}"
        self.agent: AgentDetails | None = None
        self._parts = count()

    def plan(self, *, queries: int) -> None:
        """Script a plan for each iteration, with that many queries and no insight.

        Each plan has other queries, because an Observer drops those that it has planned before.
        """
        self.stack.sandbox.script(
            *(
                {
                    "phase": "observer",
                    "contains": self.word,
                    "content": {
                        "queries": [self._query(next(self._parts)) for _ in range(queries)],
                        "insights": [],
                    },
                }
                for _ in range(PLANS)
            )
        )

    def slow(self, seconds: float) -> None:
        """Delay every call from now on."""
        self.stack.sandbox.faults({"kind": "latency", "always": True, "latency_seconds": seconds})

    def start(self) -> None:
        """Create the agent, which runs at once."""
        self.agent = self.stack.api.create_agent(
            f"Watch battery makers and their lithium supply ({self.word})",
            name=self.word,
            interval_seconds=LONG_SECONDS,
        )

    def run(self) -> int:
        """Request one more iteration; return its number."""
        last = wait_for(lambda: self.stack.api.agent(self.word), "the agent").iterations_started
        wait_for(lambda: self.stack.api.order(self.word, "run"), "the API to accept the request")
        return last + 1

    def keep_running(self) -> None:
        """Wait until an iteration runs; request one if the last has ended."""

        def look() -> bool | None:
            last = self.stack.api.agent(self.word).last_iteration
            if last is not None and last.ended_at is None:
                return True
            self.stack.api.order(self.word, "run")
            return None

        wait_for(look, f"an iteration of {self.word} to run")

    def wait_for_all(self) -> list[IterationDetails]:
        """All iterations, once none is running or requested."""

        def look() -> int | None:
            agent = self.stack.api.agent(self.word)
            last = agent.last_iteration
            is_idle = agent.run_requested_at is None and last is not None and last.ended_at
            return agent.iterations_started if is_idle else None

        count = wait_for(look, f"all iterations of {self.word} to end", 240)
        return [self.ended_whole(number) for number in range(1, count + 1)]

    def wait_for_queries(self, number: int, at_least: int) -> None:
        """Wait until that many queries of the iteration have ended, in the middle of its fan-out."""

        def look() -> bool | None:
            for iteration in self.stack.api.iterations(self.word):
                if iteration.number == number:
                    steps = self.stack.api.iteration(iteration.id).steps
                    ended_queries = [
                        step for step in steps if step.kind == "query" and step.ended_at
                    ]
                    return len(ended_queries) >= at_least or None
            return None

        wait_for(look, f"{at_least} queries of iteration {number} to end")

    def ended_whole(
        self, number: int, *, queries: int | None = None, seconds: float = 180
    ) -> IterationDetails:
        """Wait for the iteration's end; check that it and its steps completed without errors, with so many `queries`."""
        iteration = self.stack.wait_for_iteration(self.word, number, seconds=seconds)
        step_errors = [
            (step.kind, step.index, step.error) for step in iteration.steps if step.error
        ]
        assert (iteration.status, iteration.errors) == ("completed", []), step_errors
        assert {step.status for step in iteration.steps} == {"completed"}
        if queries is not None:
            assert len([step for step in iteration.steps if step.kind == "query"]) == queries
        return iteration

    def assert_events_published_once(self, iterations: list[IterationDetails]) -> None:
        """Fail unless the bus has one event for each step of these iterations and for each end."""
        expected = {
            (str(iteration.id), event_type): count
            for iteration in iterations
            for event_type, count in _event_counts(iteration).items()
        }
        event_ids: dict[tuple[str, str], set[str]] = {key: set() for key in expected}

        def is_last(event: dict[str, Any]) -> bool:
            # Events of an agent's configuration have no iteration.
            key = str(event.get("iteration_id")), event["type"].removeprefix("vigil.")
            if key in event_ids:
                event_ids[key].add(event["event_id"])
            # After a kill of NATS, a step's event may be published again after the end of its iteration.
            return all(len(event_ids[key]) >= count for key, count in expected.items())

        self.stack.list_events(is_last)
        assert {key: len(ids) for key, ids in event_ids.items()} == expected

    def assert_no_dead_letters(self) -> None:
        assert self.stack.sql("select count(*) from dead_letters") == "0"

    def _query(self, part: int) -> dict[str, Any]:
        subject = SUBJECTS[part % len(SUBJECTS)]
        objective = f"Find out what is reported about {subject}, part {part} of {self.word}."
        return {"objective": objective, "reasoning": "The mission asks.", "searchHints": [subject]}


def _event_counts(iteration: IterationDetails) -> dict[str, int]:
    """Number of events by type that a completed iteration has."""
    steps = Counter(step.kind for step in iteration.steps)
    return {
        "iteration.v1.completed": 1,
        "plan.v1.produced": 1,
        **{f"{kind}.v1.{end}": steps[kind] for kind in ("query", "insight") for end in STEP_EVENTS},
    }
