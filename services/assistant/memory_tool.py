"""The tool by which the owner steers: what is told in the conversation is kept for the plans to come."""

from typing import Literal
from uuid import UUID

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import memories
from shared.agents.memories import TooManyMemoriesError
from shared.enums import MemoryKind
from shared.graph.validation import one_line, refuse_unstorable
from shared.tools import Arguments, Json, StateTool, ToolRefusalError

SHORTEST_QUOTE_CHARACTERS = 3


class Remember(Arguments):
    kind: Literal["wish", "fact"] = Field(
        description="wish: what the owner wants you to do or to watch; fact: what the owner says is so"
    )
    content: str = Field(
        min_length=3,
        max_length=memories.MAX_CHARACTERS,
        description="The wish or fact in one sentence that can be understood without the conversation",
    )
    quote: str = Field(
        min_length=SHORTEST_QUOTE_CHARACTERS,
        max_length=2_000,
        description="The owner's own words in this message that say so, letter by letter",
    )


def remember(agent_id: UUID, question_id: UUID, question: str) -> StateTool[Remember]:
    """Keeps only what the owner's message says, checked by code: no page and no node can put words into its mouth."""

    async def run(session: AsyncSession, given: Remember) -> Json:
        if _folded(given.quote) not in _folded(question):
            raise ToolRefusalError(
                "quote: these words do not stand in the owner's message. Remember only what the owner says there, and "
                "quote it letter by letter."
            )
        content = one_line(given.content)
        refuse_unstorable(content, "content")
        try:
            memory_id = await memories.remember(
                session, agent_id, MemoryKind(given.kind), content, message_id=question_id
            )
        except TooManyMemoriesError as error:
            raise ToolRefusalError(
                f"{memories.MAX_ACTIVE} memories are kept already; ask the owner to forget one first"
                " (`vigil memory forget`)."
            ) from error
        return {"remembered": content, "memoryId": str(memory_id)}

    return StateTool(
        "remember",
        "Keeps a lasting wish or a fact that the owner tells you in this message, for your plans to come.",
        Remember,
        run,
    )


def _folded(text: str) -> str:
    return one_line(text).casefold()
