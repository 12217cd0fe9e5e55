"""Tools that write conclusions: analyses, and advice that stands on them."""

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import conclusions
from shared.graph.conclusions import Action, AnalysisKind
from shared.graph.scope import Scope
from shared.tools import Arguments, Json, StateTool

_CONFIDENCE = "How sure you are, from 0 to 1, as what it rests on allows."
_HORIZON = "a date (YYYY-MM-DD), or a time from today on, as in '3 months'."


class AddAgentAnalysisNode(Arguments):
    name: str = Field(description="A short title of its own, unlike that of any analysis there is.")
    type: AnalysisKind = Field(
        description="observation: one noteworthy fact or change; pattern: what repeats or connects across several."
    )
    summary: str = Field(description="The conclusion in one sentence.")
    content: str = Field(
        description="The reasoning in Markdown. Behind each statement, cite the existing node or edge it rests on: "
        "[node:uuid] or [edge:uuid], one id to a pair of brackets."
    )
    confidence: float = Field(ge=0, le=1, description=_CONFIDENCE)
    horizon: str | None = Field(
        None, description=f"Until when it holds, where that can be said: {_HORIZON}"
    )


class AddAgentAdviceNode(Arguments):
    name: str = Field(description="A short title of its own, unlike that of any advice there is.")
    action: Action = Field(description="What the owner should do.")
    summary: str = Field(description="The advice in one sentence, for the owner's inbox.")
    content: str = Field(
        description="The reasoning in Markdown. Cite each AgentAnalysis it rests on as [node:uuid]; cite nothing else."
    )
    confidence: float = Field(ge=0, le=1, description=_CONFIDENCE)
    horizon: str = Field(description=f"Until when the advice holds: {_HORIZON}")
    invalidation: str = Field(
        description="What could be seen that would prove the advice wrong, of whom and by how much; 20 to 600 "
        "characters."
    )


def add_agent_analysis_node(scope: Scope) -> StateTool[AddAgentAnalysisNode]:
    async def run(session: AsyncSession, given: AddAgentAnalysisNode) -> Json:
        analysis_id = await conclusions.add_analysis(
            session,
            scope,
            name=given.name,
            kind=given.type,
            summary=given.summary,
            content=given.content,
            confidence=given.confidence,
            horizon=given.horizon,
        )
        return {"nodeId": str(analysis_id)}

    return StateTool(
        "addAgentAnalysisNode",
        "Records a conclusion that the graph supports. Refused unless its content cites at least one node or edge, "
        "and only such as exist. Where the data does not support a conclusion, record none.",
        AddAgentAnalysisNode,
        run,
    )


def add_agent_advice_node(scope: Scope) -> StateTool[AddAgentAdviceNode]:
    async def run(session: AsyncSession, given: AddAgentAdviceNode) -> Json:
        advice_id = await conclusions.add_advice(
            session,
            scope,
            name=given.name,
            action=given.action,
            summary=given.summary,
            content=given.content,
            confidence=given.confidence,
            horizon=given.horizon,
            invalidation=given.invalidation,
        )
        return {"nodeId": str(advice_id), "action": given.action}

    return StateTool(
        "addAgentAdviceNode",
        "Advises the owner, who is told at once. Refused unless its content cites at least one AgentAnalysis and "
        "nothing else. Mostly there is nothing to advise: then do not call it.",
        AddAgentAdviceNode,
        run,
    )
