"""The tool that stores wishes and facts of the owner as memories for later plans."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from shared.agents import memories
from shared.agents.memories import TooManyMemoriesError
from shared.database.statements import InTransaction
from shared.enums import MemoryKind
from shared.graph.validation import one_line, refuse_unstorable
from shared.tools import Arguments, Json, StateTool, ToolRefusalError

MIN_QUOTE_CHARS = 3


class Remember(Arguments):
    kind: Literal["wish", "fact"] = Field(
        description="wish: what the owner wants you to do or to watch; fact: what the owner says is so"
    )
    content: str = Field(
        min_length=3,
        max_length=memories.MAX_MEMORY_CHARS,
        description="The wish or fact in one sentence that can be understood without the conversation",
    )
    quote: str = Field(
        min_length=MIN_QUOTE_CHARS,
        max_length=2_000,
        description="The owner's own words in this message that say so, letter by letter",
    )


def remember_tool(agent_id: UUID, question_id: UUID, question: str) -> StateTool[Remember]:
    """Stores only what the owner's message contains: the quote is checked against it, so no page or
    node can inject a memory.
    """

    async def run(session: InTransaction, arguments: Remember) -> Json:
        if _folded(arguments.quote) not in _folded(question):
            raise ToolRefusalError(
                "quote: these words are not in the owner's message. Remember only what the owner says there, and "
                "quote it exactly."
            )
        content = one_line(arguments.content)
        refuse_unstorable(content, "content")
        try:
            memory_id = await memories.remember(
                session, agent_id, MemoryKind(arguments.kind), content, message_id=question_id
            )
        except TooManyMemoriesError as error:
            raise ToolRefusalError(
                f"{memories.MAX_ACTIVE} memories are already kept; ask the owner to forget one first"
                " (`vigil memory forget`)."
            ) from error
        return {"remembered": content, "memoryId": str(memory_id)}

    return StateTool(
        "remember",
        "Keeps a lasting wish or a fact that the owner tells you in this message, for your plans to come.",
        Remember,
        run,
        needs_savepoint=False,
    )


def _folded(text: str) -> str:
    return one_line(text).casefold()
