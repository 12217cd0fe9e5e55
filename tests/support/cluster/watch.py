"""Agents with plans that a test chose, and the proof that all of it was done once."""

from collections import Counter
from typing import Any, Final
from uuid import uuid4

from shared.schemas.base import AgentDetails, IterationDetails
from tests.support.cluster.stack import Stack, waited_for

LONG_SECONDS: Final = 7 * 24 * 3600
"""An interval that no test sees the end of: iterations are asked for."""

SUBJECTS: Final = ("Northvolt", "Halden", "Orran", "lithium supply", "battery makers")
"""What tests/corpus tells of."""


class Watch:
    """One agent, called by a word that stands in no other's mission."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.word = f"w{uuid4().hex[:10]}"
        self.agent: AgentDetails | None = None

    def plan(self, *, queries: int) -> None:
        """Every iteration from now on has that many queries, and no insight."""
        plan = {
            "queries": [self._query(number) for number in range(queries)],
            "insights": [],
        }
        self.stack.sandbox.script(
            {"phase": "observer", "contains": self.word, "times": None, "content": plan}
        )

    def one_call_a_phase(self) -> None:
        """A query is answered by two calls: a document, and that there is nothing in it for the graph."""
        self.stack.sandbox.script(
            {"phase": "knowledge_acquisition", "times": None, "content": "Nothing is reported."},
            {"phase": "graph_construction", "times": None, "content": "Nothing to write."},
        )

    def slow(self, seconds: float) -> None:
        """Every call takes that long from now on."""
        self.stack.sandbox.faults({"kind": "latency", "always": True, "latency_seconds": seconds})

    def start(self) -> None:
        """Makes the agent, which runs at once."""
        self.agent = self.stack.api.create_agent(
            f"Watch battery makers and their lithium supply ({self.word})",
            name=self.word,
            interval_seconds=LONG_SECONDS,
        )

    def run(self) -> int:
        """Asks for one more iteration; its number."""
        last = waited_for(lambda: self.stack.api.agent(self.word), "the agent").iterations_started
        waited_for(lambda: self.stack.api.order(self.word, "run"), "the api to take an order")
        return last + 1

    def keep_running(self) -> None:
        """Returns when an iteration runs; asks for one where the last has ended."""

        def look() -> bool | None:
            last = self.stack.api.agent(self.word).last_iteration
            if last is not None and last.ended_at is None:
                return True
            self.stack.api.order(self.word, "run")
            return None

        waited_for(look, f"an iteration of {self.word} to run")

    def all_ended_whole(self) -> list[IterationDetails]:
        """Every iteration that was ever asked for, once none runs and none is asked for any more."""

        def look() -> int | None:
            agent = self.stack.api.agent(self.word)
            last = agent.last_iteration
            quiet = agent.run_requested_at is None and last is not None and last.ended_at
            return agent.iterations_started if quiet else None

        count = waited_for(look, f"all iterations of {self.word} to end", 240)
        return [self.ended_whole(number) for number in range(1, count + 1)]

    def queries_ended(self, number: int, at_least: int) -> None:
        """Returns when that many queries of the iteration have ended: it is in the midst of its fan-out."""

        def look() -> bool | None:
            for each in self.stack.api.iterations(self.word):
                if each.number == number:
                    steps = self.stack.api.iteration(each.id).steps
                    done = [step for step in steps if step.kind == "query" and step.ended_at]
                    return len(done) >= at_least or None
            return None

        waited_for(look, f"{at_least} queries of iteration {number} to end")

    def ended_whole(
        self, number: int, *, queries: int | None = None, seconds: float = 180
    ) -> IterationDetails:
        """The iteration, once it has ended: completed, without errors, each step of it, and so many `queries`, done."""
        iteration = self.stack.ended(self.word, number, seconds=seconds)
        troubles = [(step.kind, step.index, step.error) for step in iteration.steps if step.error]
        assert (iteration.status, iteration.errors) == ("completed", []), troubles
        assert {step.status for step in iteration.steps} == {"completed"}
        if queries is not None:
            assert len([step for step in iteration.steps if step.kind == "query"]) == queries
        return iteration

    def told_once(self, iterations: list[IterationDetails]) -> None:
        """Fails unless the bus tells of every step of these iterations and of their ends, each once."""
        last = {str(each.id) for each in iterations}

        def is_last(event: dict[str, Any]) -> bool:
            if event["type"] == "vigil.iteration.v1.completed":
                last.discard(event["iteration_id"])
            return not last

        told = self.stack.told(is_last)
        for iteration in iterations:
            ids = {
                each["event_id"]: each["type"]
                for each in told
                # What is told of an agent's configuration is of no iteration.
                if each.get("iteration_id") == str(iteration.id)
            }
            kinds = Counter(kind.removeprefix("vigil.") for kind in ids.values())
            steps = Counter(step.kind for step in iteration.steps)
            assert kinds["iteration.v1.completed"] == 1
            assert kinds["plan.v1.produced"] == 1
            assert kinds["query.v1.requested"] == kinds["query.v1.completed"] == steps["query"]
            assert (
                kinds["insight.v1.requested"] == kinds["insight.v1.completed"] == steps["insight"]
            )

    def nothing_dead(self) -> None:
        assert self.stack.sql("select count(*) from dead_letters") == "0"

    def _query(self, number: int) -> dict[str, Any]:
        subject = SUBJECTS[number % len(SUBJECTS)]
        objective = f"Find out what is reported about {subject}, part {number} of {self.word}."
        return {"objective": objective, "reasoning": "The mission asks.", "searchHints": [subject]}
