"""Facts by sentence number: what a model can write that makes no valid tool call.

Small models invent quotes. Here they choose among numbered sentences of the pages, and code quotes the sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from services.researcher.acquisition import Sentence
from services.researcher.prompts import facts_message
from services.researcher.query_context import QueryContext
from shared.llm.phase_run import PhaseRun
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.llm.tool_loop import Calls, ToolLoop
from shared.tools import Json

MAX_FACTS: Final = 5
NAME: Final = "facts"
"""The name of the structured answer."""


class Fact(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sentence: int = Field(description="The number of the sentence.")
    name: str = Field(description="The name of the one thing that the sentence is about.")
    type: str = Field(description="The node type of that thing.")


class Facts(BaseModel):
    model_config = ConfigDict(extra="forbid")

    facts: list[Fact] = Field(max_length=MAX_FACTS)


@dataclass(frozen=True)
class SentenceFacts:
    """A `Fallback` of graph construction. Needed if nothing was written although there are sentences to quote."""

    query_context: QueryContext
    sentences: Sequence[Sentence]
    repair: str = (
        "Construction had written nothing, so the model chose facts by the numbers of sentences."
    )

    @classmethod
    def of(
        cls, query_context: QueryContext, sentences: Sequence[Sentence]
    ) -> "SentenceFacts | None":
        """None if there is nothing to choose from."""
        return cls(query_context, sentences) if sentences and query_context.node_types else None

    def is_needed(self, loop: ToolLoop) -> bool:
        return not loop.results_of("addGraphNode") and not loop.results_of("addGraphEdge")

    async def find_calls(self, run: PhaseRun) -> Calls:
        message = facts_message(
            self.query_context.agent.mission,
            self.query_context.query,
            [sentence.text for sentence in self.sentences],
            self.query_context.node_types,
        )
        request = run.fresh_request(message, response_format(Facts, NAME))
        try:
            facts, _ = await request_structured_answer(run, request, Facts, name=NAME)
        except UnusableAnswerError:
            return []
        return [
            ("addGraphNode", self._node(fact))
            for fact in facts.facts
            if 1 <= fact.sentence <= len(self.sentences) and fact.name.strip()
        ]

    def _node(self, fact: Fact) -> Json:
        sentence = self.sentences[fact.sentence - 1]
        return {
            "type": self._node_type(fact.type),
            "name": fact.name,
            "properties": {"summary": sentence.text},
            "evidence": [{"sourceUrl": sentence.url, "quote": sentence.text}],
        }

    def _node_type(self, name: str) -> str:
        """The type of that name in any capitals, else the first one."""
        by_name = {known.casefold(): known for known in self.query_context.node_types}
        return by_name.get(name.strip().casefold(), self.query_context.node_types[0])
