"""Tools that a model can call: a name, a description, typed arguments and a function.

The model sees names and arguments in camelCase. `shared.graph` and `shared.web_search` define the tools, the services
choose those of a phase, and the tool loop in `shared.llm` runs them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from shared.billing.embedding_cache import EmbeddingRequest
from shared.billing.resumable_call import ResumableCall
from shared.database.statements import Batch
from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.hidden_text import values_without_hidden
from shared.tools.schemas import compact_parameters, portable_schema

Json = dict[str, Any]
INTERPRETATIONS_KEY: Final = "understood"
"""Key in a tool's result: how it interpreted ambiguous arguments, one sentence each."""
FINAL_KEY: Final = "final"
"""Key in the result of a refused call that is left out: the model is not asked to correct it."""
AWAITS_KEY: Final = "awaits"
"""Key in the result of a refused call: the name of a node whose call was refused too. Once that is corrected, code repeats
this one.
"""
RECALLED_KEY: Final = "recalled"
"""Key in a recorded answer that was recalled, and holds no longer than the one that was paid for."""
EARLIER_DATE_KEY: Final = "published_date_from"
"""Key in a result of a page whose date its own result did not give."""
EARLIER_DATE: Final = "a feed or an earlier search"
RETRACTED_KEY: Final = "retracted"
"""Key in the answer to a search: the pages that it found and that the owner has retracted, each with the reason."""
PUBLISHED_UNTIL_KEY: Final = "published_until"
"""Key in the answer to an agent with an archive date: that date, after which no page was published."""


@dataclass(frozen=True)
class Shown:
    """The result of a paid tool as the model sees it."""

    result: Json | None
    """None if all of it was shown before."""
    record: Json | None = None
    """Data by which a resumed run shows the same after changes of the code; None if it needs none."""


Show = Callable[[Json, int, Json | None], Shown]
"""Returns what the model is shown of a result. The other arguments are how often the same call was made before, and the
record of what was shown of this one, if it was. Results are passed in call order, each once.
"""


class Arguments(BaseModel):
    """Base class of tool arguments. Unknown arguments are refused, so that the model learns of its mistake."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_hidden_characters(cls, value: Any) -> Any:
        """A model and a person must read the same text."""
        return values_without_hidden(value)


A = TypeVar("A", bound=Arguments)


Prepare = Callable[[Batch, Sequence[Arguments]], Callable[[Transaction], Awaitable[None]]]
"""Adds to a round trip what tools look up that are called with these arguments in one answer, and the locks that they need.
When the batch has been made, its result is awaited with the transaction in which the tools run, in order.
"""


class ToolRefusalError(VigilError):
    """The tool refuses the call. The model receives the message, which says what is wrong and how to correct it."""

    is_final = False
    """Whether the call is left out, without a request to correct it."""

    def __init__(
        self, message: str, *, is_unbilled: bool = False, details: Json | None = None
    ) -> None:
        """`details` are recorded with the message, and shown to the model."""
        super().__init__(message, is_unbilled=is_unbilled)
        self.details = details or {}

    @property
    def result(self) -> Json:
        """The result of the refused call."""
        final = {FINAL_KEY: True} if self.is_final else {}
        return {"error": str(self), **self.details, **final}


class LeftOutError(ToolRefusalError):
    """The tool refuses a call that is left out: nothing that is required is missing without it."""

    is_final = True


@dataclass(frozen=True)
class StateTool(Generic[A]):
    """A tool that reads or writes the database. Its effect and its result are committed in one transaction.

    `run` receives that transaction, does not commit, and raises ToolRefusalError to refuse, before it writes anything.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[Transaction, A], Awaitable[Json]]
    embedding_request: Callable[[A], EmbeddingRequest | None] = lambda _: None
    """The embedding that `run` reads from the ledger. The loop requests it before the transaction, if it can."""
    prepare: Prepare | None = None
    """Looks up together what the calls of an answer need. Tools of a loop can have the same."""
    is_previewed: bool = False
    """Whether its calls are examined before they run, if the loop has a preview."""
    ends_work: bool = False
    """Whether the phase ends after the answer that calls it, or after the first later one without a refused call."""
    only_reads: bool = False
    """Whether it is called for its result alone. The phase does not end before the model has seen that."""


@dataclass(frozen=True)
class PaidTool(Generic[A]):
    """A tool that calls a paid external service. It uses the call ledger, so that no answer is paid for twice.

    For short calls: after a crash before the answer is recorded, the call is sent and paid for again.
    `call` raises TransientError or PermanentError if the service fails, ToolRefusalError if the arguments are invalid.
    """

    name: str
    description: str
    arguments: type[A]
    call: Callable[[A, ResumableCall], Awaitable[Json]]
    operation: str
    """The key of its price in the price list. If it is not listed, the fallback price applies."""
    recall: Callable[[A], Awaitable[Json | None]] | None = None
    """An earlier answer that still holds, for which nothing is paid; None if there is none."""
    show: Show | None = None
    """How the model sees a result; the result itself is recorded."""


@dataclass(frozen=True)
class OrderedTool(Generic[A]):
    """A paid tool for long calls: `order` starts the call and returns a reference, and `collect` polls for the result.

    Both raise the errors of `PaidTool.call`. `collect` also raises CallLostError if the reference is unknown.
    """

    name: str
    description: str
    arguments: type[A]
    order: Callable[[A, ResumableCall], Awaitable[str]]
    collect: Callable[[str], Awaitable[Json]]
    operation: str = ""


class NoArguments(Arguments):
    pass


def finish() -> StateTool[NoArguments]:
    """Returns the tool by which a model ends a phase in the answer with its last calls, which saves a call of the model."""

    async def run(_: Transaction, __: NoArguments) -> Json:
        return {}

    return StateTool(
        "finish",
        "Ends your work. Call it last, in the same answer as your last other calls.",
        NoArguments,
        run,
        ends_work=True,
    )


Tool = StateTool[Any] | PaidTool[Any] | OrderedTool[Any]


@dataclass(frozen=True)
class Refusal:
    """A refused part of a call."""

    reason: str
    """A message for the model."""
    remaining: Arguments | None = None
    """The call without what is refused; None if nothing is left of it."""


ToolPolicy = Callable[[str, Arguments, Sequence[Json]], Refusal | None]
"""Returns the part of a call that a phase may not make; None if it may make the whole call.

Its arguments are the phase's first message, the tool's arguments, and the earlier results of the phase's tools without
refusals. It must decide from these alone, so that a resumed run decides the same.
"""


def declaration(tool: Tool) -> Json:
    """Returns the declaration of `tool` for chat completions."""
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
    """Cached, because it takes a millisecond and is the same for every step."""
    return compact_parameters(portable_schema(arguments.model_json_schema(by_alias=True)))
