"""The same mission, but that one Analyzer lacks something at first: a round of feedback looks for it."""

from typing import Any, ClassVar

from shared.enums import Phase
from tests.support.chaos.mission import INSIGHTS, QUERIES, Mission, always, call
from tests.support.levers import Sandbox


class LackingMission(Mission):
    """The last insight cannot be analyzed before the query that no plan has made is answered."""

    feedback_rounds: ClassVar[int] = 1

    def teach(self, sandbox: Sandbox) -> None:
        """Later rounds first, as the mission does; what was found stands in the message of who is asked again alone."""
        lacking = INSIGHTS - 1
        found = f"- {self._query(QUERIES)}"
        done, again = self._analysis(lacking)
        sandbox.script(*self._research(QUERIES), done, again | {"contains": found}, *self._lack())
        super().teach(sandbox)

    def _lack(self) -> list[dict[str, Any]]:
        mark = f"{self.tag} mark lacking"
        request = call(
            "requestInvestigation",
            objective=self._query(QUERIES),
            reasoning="Nothing can be concluded without it.",
            searchHints=[],
        )
        lacking = self._observed(INSIGHTS - 1)
        return [
            always(Phase.ANALYSIS_GENERATION, mark, content="Asked."),
            always(
                Phase.ANALYSIS_GENERATION,
                lacking,
                tool_calls=[call("queryGraph", text=mark), request],
            ),
        ]
