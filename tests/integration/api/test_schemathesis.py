"""Every operation of the api's own document, asked all that it may be asked and much that it may not.

Whatever is asked, the answer is one that the document names, of the shape that it names. Operations that are added are
asked as well, by themselves; what they are about is found in KNOWN.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final
from unittest import SkipTest

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Unsatisfiable
from schemathesis import Case
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from shared.runtime.settings import Settings
from shared.store.database import Database
from tests.integration.api.full import Full, full_agent
from tests.integration.api.serving import served

SEED: Final = 5
EXAMPLES: Final = 6
"""Right ones, and wrong ones, of each operation."""
DOOMED: Final = "Doomed"
"""The agent that is deleted, so that the other stays."""

NOT_ASKED: Final[dict[str, str]] = {}
"""Paths that cannot be asked so, each with the reason: a stream that never ends, for one."""

NOT_CHECKED: Final = {
    positive_data_acceptance: "some rules no schema can say: a mission of blanks is none",
    negative_data_rejection: "numbers and flags may come as text, and what is not asked for is not looked at",
    missing_required_header: "no header is required",
    unsupported_method: "what answers elsewhere under the same template counts as unsupported here",
}

Operation = APIOperation[Any, Any, Any, Any]
AnyCase = Case[Any]


@dataclass(frozen=True)
class Known:
    """What there is, by the names that path parameters have."""

    kept: dict[str, str]
    doomed: dict[str, str]
    """What deletes are about, so that the rest stays."""


class Credential:
    """What the caller shows; nothing, as long as nobody is asked for anything."""

    headers: Final[dict[str, str]] = {}


@pytest.fixture
def known(database_url: str) -> Known:
    async def make() -> tuple[Full, Full]:
        database = Database(database_url, name="test")
        try:
            return await full_agent(database), await full_agent(database, DOOMED)
        finally:
            await database.close()

    kept, doomed = asyncio.run(make())
    return Known(_by_parameter(kept), _by_parameter(doomed))


@pytest.fixture
def document(database_url: str, known: Known) -> Iterator[BaseSchema]:
    told: dict[str, Any] = {"requests_per_second": 1e6, "requests_burst": 10**6}
    with served(Settings(database_url=database_url, **told)) as url:
        yield schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")


def test_every_answer_is_one_that_the_document_names(document: BaseSchema, known: Known) -> None:
    found = list(document.get_all_operations())
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(operations) == len(found) > 0
    asked = [each for each in operations if each.path not in NOT_ASKED]
    answered: dict[str, set[int]] = defaultdict(set)
    wrong = {each.label: told for each in asked if (told := _failure(each, known, answered))}
    assert not wrong, "\n\n".join(f"{label}\n{told}" for label, told in wrong.items())
    refused = {each.label for each in asked if not any(map(_is_good, answered[each.label]))}
    assert refused == set(), "they were never asked what they answer"


def _is_good(status: int) -> bool:
    return 200 <= status < 300


def _failure(operation: Operation, known: Known, answered: dict[str, set[int]]) -> str | None:
    """What was wrong with its answers, in words that let it be asked again."""
    for mode in GenerationMode:
        try:
            _ask(operation, mode, known, answered[operation.label])
        except (Unsatisfiable, SkipTest):
            continue  # nothing in it can be wrong: it has no parameters
        except (FailureGroup, Failure) as error:
            return str(error)
    return None


def _ask(operation: Operation, mode: GenerationMode, known: Known, answered: set[int]) -> None:
    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: AnyCase) -> None:
        if mode is GenerationMode.POSITIVE:
            _be_about_what_there_is(case, known)
        told = case.call_and_validate(headers=Credential.headers, excluded_checks=list(NOT_CHECKED))
        answered.add(told.status_code)

    ask()


def _by_parameter(full: Full) -> dict[str, str]:
    ids = {name: str(found) for name, found in asdict(full).items()}
    # The agent by its id, for its name is changed on the way.
    others = {"agent": ids["agent_id"], "letter": ids["letter_id"], "number": "1"}
    ended = ids["ended_iteration_id"]
    return ids | others | {"node_type": "Thing", "edge_type": "buys", "iteration_id": ended}


def _be_about_what_there_is(case: AnyCase, known: Known) -> None:
    """Else hardly any id would be one."""
    wanted = known.doomed if case.method == "DELETE" else known.kept
    for name in case.path_parameters:
        if name in wanted:
            case.path_parameters[name] = wanted[name]
