"""The configuration phase: from a mission to a name and six prompts, then to the types that the corpus gives it."""

from collections.abc import Callable, Mapping

from sandbox.reader.answer import Answer
from sandbox.reader.configure.foreseen import Search
from sandbox.reader.configure.prompts import write_prompts
from sandbox.reader.configure.types import choose_types
from sandbox.reader.instance import fill_schema
from sandbox.reader.request import ChatRequest

PROMPTS_SCHEMA = "agent_configuration"
TYPES_SCHEMA = "agent_types"

_ANSWERS: Mapping[str, Callable[[ChatRequest, Search], Answer]] = {
    PROMPTS_SCHEMA: lambda request, _: write_prompts(request),
    TYPES_SCHEMA: choose_types,
}


def configure(request: ChatRequest, search: Search) -> Answer:
    """Told by the schema's name; any other schema is filled with the least that satisfies it."""
    answer = _ANSWERS.get(request.schema_name, lambda request, _: fill_schema(request))
    return answer(request, search)
