"""The configuration phase: from a mission to a name, six prompts, and node and edge types."""

from sandbox.model.configure.prompts import write_prompts
from sandbox.model.configure.types import Search, choose_types
from sandbox.model.request import Answer, ChatRequest
from sandbox.model.schema_filler import fill_schema

PROMPTS_SCHEMA = "agent_configuration"
TYPES_SCHEMA = "agent_types"


def configure(request: ChatRequest, search: Search) -> Answer:
    """Answer by the schema's name; unknown schemas get their smallest valid instance."""
    if request.schema_name == PROMPTS_SCHEMA:
        return write_prompts(request)
    if request.schema_name == TYPES_SCHEMA:
        return choose_types(request, search)
    return fill_schema(request)
