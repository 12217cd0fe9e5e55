"""Every operation of the api's own document, asked all that it may be asked and much that it may not.

Whatever is asked, the answer is one that the document names, of the shape that it names. Operations that are added are
asked as well, by themselves; what they are about is found in KNOWN.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http import HTTPStatus
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

from services.api.auth.middleware import BEARER, SAME_ORIGIN
from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.around import ADDRESS, Around, around
from tests.support.api.full import Full, full_agent
from tests.support.api.serving import served
from tests.support.api.signed_in import session_cookie, token_of

SEED: Final = 5
EXAMPLES: Final = 6
"""Right ones, and wrong ones, of each operation."""
DOOMED: Final = "Doomed"
"""The agent that is deleted, so that the other stays."""

NOT_ASKED: Final = {
    "/api/v1/events": "a stream that never ends, and has tests of its own",
    "/api/v1/agents/{agent}/events": "the same",
}
"""Paths that cannot be asked so, each with the reason."""
SPOILING: Final = frozenset({"PATCH /api/v1/destinations/{destination_id}"})
"""Besides the deletes, what leaves less for others to be asked about: nothing is sent where it is not active."""
OF_BROWSERS: Final = "POST /api/v1/sign-out"
"""It ends the session that asks, so it is asked with one."""
OTHERWISE: Final = {
    ("POST /api/v1/agents/{agent}/conversation/messages/{message_id}/retry", "message_id"): (
        "failed_message_id"
    ),
}
"""Where a parameter of an operation is about something else than elsewhere: only what failed is retried."""

IN_BODIES: Final = ("address", "kept", "merged", "source")
"""What names something in a body."""

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


@dataclass(frozen=True)
class Credential:
    """What the caller shows: a token that allows everything, or where a browser is asked for its session."""

    token: str
    cookie: str
    session_secret: str

    def headers(self, operation: Operation) -> dict[str, str]:
        if operation.label == OF_BROWSERS:
            return {"Cookie": f"{self.cookie}={self.session_secret}", "Sec-Fetch-Site": SAME_ORIGIN}
        return {"Authorization": f"{BEARER} {self.token}"}


@dataclass(frozen=True)
class Asker:
    known: Known
    credential: Credential


@pytest.fixture
async def asker(database: Database, settings: Settings) -> Asker:
    token = await token_of(settings)
    cookie = await session_cookie(settings, database)
    kept, doomed = await full_agent(database), await full_agent(database, DOOMED)
    by_kept = _by_parameter(kept, about := await around(database, kept.agent_id))
    by_doomed = _by_parameter(doomed, await around(database, doomed.agent_id))
    return Asker(Known(by_kept, by_doomed), Credential(token, cookie, about.session_secret))


@pytest.fixture
def document(settings: Settings, asker: Asker) -> Iterator[BaseSchema]:
    unhurried = {"requests_per_second": 1e6, "requests_burst": 10**6}
    with served(settings.model_copy(update=unhurried)) as url:
        yield schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")


@pytest.mark.slow
def test_every_answer_is_one_that_the_document_names(document: BaseSchema, asker: Asker) -> None:
    found = list(document.get_all_operations())
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(operations) == len(found) > 0
    asked = [each for each in operations if each.path not in NOT_ASKED]
    asked.sort(key=_how_much_goes_with_it)
    answered: dict[str, set[int]] = defaultdict(set)
    wrong = {each.label: told for each in asked if (told := _failure(each, asker, answered))}
    assert not wrong, "\n\n".join(f"{label}\n{told}" for label, told in wrong.items())
    refused = {
        each.label: answered[each.label]
        for each in asked
        if not any(map(_is_good, answered[each.label]))
    }
    assert not refused, f"they were never asked what they answer: {refused}"


def _how_much_goes_with_it(operation: Operation) -> tuple[bool, bool]:
    """Deletes come last, and that of an agent after those of what it has."""
    return operation.method.upper() == "DELETE", operation.path == "/api/v1/agents/{agent}"


def _is_good(status: int) -> bool:
    # Who opens a sign-in link is led on by 303, and answered by nothing else where it works.
    return 200 <= status < 300 or status == HTTPStatus.SEE_OTHER


def _failure(operation: Operation, asker: Asker, answered: dict[str, set[int]]) -> str | None:
    """What was wrong with its answers, in words that let it be asked again."""
    for mode in GenerationMode:
        try:
            _ask(operation, mode, asker, answered[operation.label])
        except (Unsatisfiable, SkipTest):
            continue  # nothing in it can be wrong: it has no parameters
        except (FailureGroup, Failure) as error:
            return str(error)
    return None


def _ask(operation: Operation, mode: GenerationMode, asker: Asker, answered: set[int]) -> None:
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
            _be_about_what_there_is(case, asker.known)
        shown = asker.credential.headers(operation)
        told = case.call_and_validate(headers=shown, excluded_checks=list(NOT_CHECKED))
        answered.add(told.status_code)

    ask()


def _by_parameter(full: Full, about: Around) -> dict[str, str]:
    ids = {name: str(found) for name, found in (asdict(full) | asdict(about)).items()}
    # The agent by its id, for its name is changed on the way.
    others = {"agent": ids["agent_id"], "letter": ids["letter_id"], "number": "1"}
    others |= {"user": ids["user_id"], "secret": ids["link_secret"], "address": ADDRESS}
    others |= {"conclusion_id": ids["advice_id"]}
    ended = ids["ended_iteration_id"]
    return ids | others | {"node_type": "Thing", "edge_type": "buys", "iteration_id": ended}


def _be_about_what_there_is(case: AnyCase, known: Known) -> None:
    """Else hardly any id would be one."""
    spoils = case.method == "DELETE" or case.operation.label in SPOILING
    wanted = known.doomed if spoils else known.kept
    given = [case.path_parameters, case.query]
    if isinstance(case.body, dict):
        case.body |= {name: wanted[name] for name in IN_BODIES if name in case.body}
    for parameters in given:
        for name in parameters:
            name_of_it = OTHERWISE.get((case.operation.label, name), name)
            if name_of_it in wanted:
                parameters[name] = wanted[name_of_it]
