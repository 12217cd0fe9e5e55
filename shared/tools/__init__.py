"""What a phase can be handed: a tool is a name, a description, typed arguments, and what it does.

The model sees names and arguments in camelCase; nothing else of the product. `shared.graph` and `shared.web_search` make
the tools, services hand them to a phase, and the loop in `shared.llm` runs them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.embedding_cache import EmbeddingRequest
from shared.errors import VigilError
from shared.tools.schemas import portable_schema

Json = dict[str, Any]
UNDERSTOOD: Final = "understood"
"""In what a tool gives: how it read arguments that could have been meant otherwise, a sentence each."""
Keep = Callable[[AsyncSession, Json], Awaitable[None]]


class Arguments(BaseModel):
    """Base of every tool's arguments; what is not known is refused, so that the model learns of its mistake."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


A = TypeVar("A", bound=Arguments)


class ToolRefusalError(VigilError):
    """The call is refused; the message goes to the model and says what is wrong and how to mend it."""


@dataclass(frozen=True)
class StateTool(Generic[A]):
    """Reads or writes the state. Its effect and its recorded result are one transaction.

    `run` receives that transaction's session, commits nothing itself, and raises ToolRefusalError to refuse.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[AsyncSession, A], Awaitable[Json]]
    meant: Callable[[A], EmbeddingRequest | None] = lambda _: None
    """What `run` looks up in the ledger, if it is there: the loop sees to that before the transaction, where it can."""


@dataclass(frozen=True)
class PaidTool(Generic[A]):
    """Asks an outside service that costs money. Goes through the call ledger, so that no answer is paid for twice.

    For short calls: what a crash kept from the ledger is asked, and paid for, again.
    `call` raises TransientError or PermanentError where the service fails, ToolRefusalError where the arguments do.
    """

    name: str
    description: str
    arguments: type[A]
    call: Callable[[A], Awaitable[Json]]
    operation: str = ""
    """What its price is listed under; one that is not listed costs what the list's fallback says."""
    keep: Keep | None = None
    """Keeps what of an answer is to outlast it, in the transaction that records the answer. May run more than once."""


@dataclass(frozen=True)
class OrderedTool(Generic[A]):
    """A paid tool whose service takes its time: it is ordered, and its result collected by the reference that `order` gives.

    Both raise what `PaidTool.call` does, and `collect` CallLostError where nothing is to be had by that reference.
    """

    name: str
    description: str
    arguments: type[A]
    order: Callable[[A], Awaitable[str]]
    collect: Callable[[str], Awaitable[Json]]
    operation: str = ""


Tool = StateTool[Any] | PaidTool[Any] | OrderedTool[Any]

Guard = Callable[[str, Arguments, Sequence[Json]], str | None]
"""Why a phase may not use a tool with these arguments, for the model; None where it may.

It is given the phase's first message and what its tools gave before the answer that asks for this, refusals left out:
from these alone it decides, so that a run that is resumed decides the same.
"""


def declaration(tool: Tool) -> Json:
    """`tool` as chat completions want it declared."""
    parameters = _parameters(tool.arguments)  # type: ignore[arg-type]  # classes are hashable
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        },
    }


@cache
def _parameters(arguments: type[Arguments]) -> Json:
    """Takes a millisecond, and is the same for every step."""
    schema = portable_schema(arguments.model_json_schema(by_alias=True))
    schema.pop("description", None)
    return {"required": [], **schema}
