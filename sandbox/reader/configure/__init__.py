"""The configuration phase: from a mission to a name and six prompts, then to the types that the corpus gives it."""

from sandbox.reader.answer import Answer
from sandbox.reader.configure.foreseen import Search
from sandbox.reader.configure.prompts import write_prompts
from sandbox.reader.configure.types import choose_types
from sandbox.reader.instance import fill_schema
from sandbox.reader.request import ChatRequest

PROMPTS_SCHEMA = "agent_configuration"
TYPES_SCHEMA = "agent_types"


def configure(request: ChatRequest, search: Search) -> Answer:
    """Told by the schema's name; any other schema is filled with the least that satisfies it."""
    if request.schema_name == PROMPTS_SCHEMA:
        return write_prompts(request)
    if request.schema_name == TYPES_SCHEMA:
        return choose_types(request, search)
    return fill_schema(request)
