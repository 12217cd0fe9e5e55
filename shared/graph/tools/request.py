"""The tool that names data which is lacking."""

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.graph.values import refuse_unstorable
from shared.store import investigations
from shared.tools import Arguments, Json, StateTool, ToolRefusalError

OBJECTIVE_CHARACTERS = (15, 300)
MOST_OF_A_STEP = 5


class RequestInvestigation(Arguments):
    objective: str = Field(
        description="One thing to find out, specific enough to be searched for: what, of whom, for when."
    )
    reasoning: str = Field(
        max_length=600, description="What cannot be concluded while it is not known."
    )
    search_hints: list[str] = Field(
        max_length=5, description="Searches to begin with, as one would type them."
    )


def request_investigation(scope: Scope) -> StateTool[RequestInvestigation]:
    async def run(session: AsyncSession, given: RequestInvestigation) -> Json:
        refuse_unstorable(given.model_dump(), "the request")
        objective = " ".join(given.objective.split())
        shortest, longest = OBJECTIVE_CHARACTERS
        if not shortest <= len(objective) <= longest:
            raise ToolRefusalError(
                f"objective: {len(objective)} characters; say in {shortest} to {longest} what, of whom and for when, "
                "and ask for one thing at a time."
            )
        assert scope.iteration_id is not None, "only steps of an iteration analyze"
        assert scope.step_id is not None, "only steps of an iteration analyze"
        if await investigations.count_of_step(session, scope.step_id) >= MOST_OF_A_STEP:
            raise ToolRefusalError(
                f"{MOST_OF_A_STEP} requests are made already; that is all for one insight. End now."
            )
        wanted = investigations.Wanted(objective, given.reasoning, tuple(given.search_hints))
        request_id = await investigations.make(
            session, scope.agent_id, scope.iteration_id, scope.step_id, wanted
        )
        return {"requestId": str(request_id), "objective": objective}

    return StateTool(
        "requestInvestigation",
        "Asks for data that the graph lacks and a conclusion needs: somebody searches for it, in this iteration or a "
        "later one. One specific thing at a time. Look in the graph first.",
        RequestInvestigation,
        run,
    )
