"""The same mission, but one Analyzer misses data at first, which a feedback round researches."""

from typing import Any, ClassVar

from shared.enums import Phase
from tests.support.chaos.mission import INSIGHTS, QUERIES, Mission, always, call
from tests.support.sandbox_control import Sandbox


class FeedbackMission(Mission):
    """The last insight requests an investigation: one more query, and the insight is repeated."""

    feedback_rounds: ClassVar[int] = 1

    def script_model(self, sandbox: Sandbox) -> None:
        """Script later rounds first; only the repeated insight's prompt contains the finding."""
        insight = INSIGHTS - 1
        finding = f"- {self._query(QUERIES)}"
        final, analysis = self._analysis(insight)
        sandbox.script(
            *self._research(QUERIES),
            final,
            analysis | {"contains": finding},
            *self._missing_data(),
        )
        super().script_model(sandbox)

    def _query(self, number: int) -> str:
        """Name in the request what answers it: a request is answered only by what bears on it."""
        return super()._query(number) + (" about lithium makers" if number == QUERIES else "")

    def _missing_data(self) -> list[dict[str, Any]]:
        mark = f"{self.tag} mark lacking"
        request = call(
            "requestInvestigation",
            objective=self._query(QUERIES),
            reasoning="Nothing can be concluded without it.",
            searchHints=[],
        )
        observation = self._observation(INSIGHTS - 1)
        return [
            always(Phase.ANALYSIS_GENERATION, mark, content="Asked."),
            always(
                Phase.ANALYSIS_GENERATION,
                observation,
                tool_calls=[call("queryGraph", text=mark), request],
            ),
        ]
