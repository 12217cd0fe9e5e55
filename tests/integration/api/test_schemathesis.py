"""Every operation of the OpenAPI document is called with valid and invalid requests.

Every response must have a status and a schema that the document lists. New operations are tested automatically; the ids
of their resources come from `KnownResources`.
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
from tests.support.api.agent_resources import ADDRESS, AgentResources, create_agent_resources
from tests.support.api.full_agent import FullAgent, create_full_agent
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token, session_cookie_name

SEED: Final = 5
EXAMPLES: Final = 6
"""Number of valid and of invalid requests for each operation."""
DOOMED: Final = "Doomed"
"""The agent that deletes use, so that the other agent stays."""

EXCLUDED_PATHS: Final = {
    "/api/v1/events": "an endless stream with its own tests",
    "/api/v1/agents/{agent}/events": "the same",
}
"""Paths that cannot be tested this way, each with the reason."""
DISABLING: Final = frozenset({"PATCH /api/v1/destinations/{destination_id}"})
"""Operations besides deletes that break later requests: an inactive destination sends nothing."""
SIGN_OUT: Final = "POST /api/v1/sign-out"
"""It ends the caller's session, so it is called with a session cookie."""
PARAMETER_OVERRIDES: Final = {
    ("POST /api/v1/agents/{agent}/conversation/messages/{message_id}/retry", "message_id"): (
        "failed_message_id"
    ),
}
"""Parameters that need another resource in one operation: only a failed message is retried."""

BODY_FIELDS: Final = ("address", "kept", "merged", "one", "other", "source")
"""Body fields that refer to a resource."""

EXCLUDED_CHECKS: Final = {
    positive_data_acceptance: "a schema cannot express some rules, e.g. that a mission is not blank",
    negative_data_rejection: "numbers and flags may be sent as text, and unknown parameters are ignored",
    missing_required_header: "no header is required",
    unsupported_method: "a method of another route with the same template counts as unsupported here",
}

Operation = APIOperation[Any, Any, Any, Any]
AnyCase = Case[Any]


@dataclass(frozen=True)
class KnownResources:
    """Ids of the existing resources, by path parameter name."""

    permanent: dict[str, str]
    disposable: dict[str, str]
    """The resources that deletes use, so that the others stay."""


@dataclass(frozen=True)
class Credential:
    """The caller's credential: a token with all scopes, or a session cookie for sign-out."""

    token: str
    cookie: str
    session_secret: str

    def headers(self, operation: Operation) -> dict[str, str]:
        if operation.label == SIGN_OUT:
            return {"Cookie": f"{self.cookie}={self.session_secret}", "Sec-Fetch-Site": SAME_ORIGIN}
        return {"Authorization": f"{BEARER} {self.token}"}


@dataclass(frozen=True)
class ApiCaller:
    resources: KnownResources
    credential: Credential


@pytest.fixture
async def caller(database: Database, settings: Settings) -> ApiCaller:
    token = await create_token(settings)
    cookie = await session_cookie_name(settings, database)
    permanent, disposable = (
        await create_full_agent(database),
        await create_full_agent(database, DOOMED),
    )
    permanent_ids = _by_parameter(
        permanent, resources := await create_agent_resources(database, permanent.agent_id)
    )
    disposable_ids = _by_parameter(
        disposable, await create_agent_resources(database, disposable.agent_id)
    )
    return ApiCaller(
        KnownResources(permanent_ids, disposable_ids),
        Credential(token, cookie, resources.session_secret),
    )


@pytest.fixture
def document(settings: Settings, caller: ApiCaller) -> Iterator[BaseSchema]:
    no_rate_limit = {"requests_per_second": 1e6, "requests_burst": 10**6}
    with serve_api(settings.model_copy(update=no_rate_limit)) as url:
        yield schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")


@pytest.mark.slow
def test_every_response_matches_the_openapi_document(
    document: BaseSchema, caller: ApiCaller
) -> None:
    results = list(document.get_all_operations())
    operations = [result.ok() for result in results if isinstance(result, Ok)]
    assert len(operations) == len(results) > 0
    tested = [operation for operation in operations if operation.path not in EXCLUDED_PATHS]
    tested.sort(key=_deletion_order)
    statuses: dict[str, set[int]] = defaultdict(set)
    failures = {
        operation.label: failure
        for operation in tested
        if (failure := _failure(operation, caller, statuses))
    }
    assert not failures, "\n\n".join(f"{label}\n{failure}" for label, failure in failures.items())
    rejected = {
        operation.label: statuses[operation.label]
        for operation in tested
        if not any(map(_is_success, statuses[operation.label]))
    }
    assert not rejected, f"no request succeeded: {rejected}"


def _deletion_order(operation: Operation) -> tuple[bool, bool]:
    """Sorts deletes last, and the delete of an agent after those of its resources."""
    return operation.method.upper() == "DELETE", operation.path == "/api/v1/agents/{agent}"


def _is_success(status: int) -> bool:
    # A valid sign-in link only ever redirects with 303.
    return 200 <= status < 300 or status == HTTPStatus.SEE_OTHER


def _failure(operation: Operation, caller: ApiCaller, statuses: dict[str, set[int]]) -> str | None:
    """Calls the operation; returns the first failure as text, with what is needed to repeat it."""
    for mode in GenerationMode:
        try:
            _send_requests(operation, mode, caller, statuses[operation.label])
        except (Unsatisfiable, SkipTest):
            continue  # without parameters there are no invalid requests
        except (FailureGroup, Failure) as error:
            return str(error)
    return None


def _send_requests(
    operation: Operation, mode: GenerationMode, caller: ApiCaller, statuses: set[int]
) -> None:
    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: AnyCase) -> None:
        if mode is GenerationMode.POSITIVE:
            _use_known_resources(case, caller.resources)
        headers = caller.credential.headers(operation)
        response = case.call_and_validate(headers=headers, excluded_checks=list(EXCLUDED_CHECKS))
        statuses.add(response.status_code)

    send()


def _by_parameter(full: FullAgent, resources: AgentResources) -> dict[str, str]:
    ids = {name: str(value) for name, value in (asdict(full) | asdict(resources)).items()}
    # The agent by its id, because its name changes during the test.
    parameters = {"agent": ids["agent_id"], "dead_letter": ids["dead_letter_id"], "number": "1"}
    parameters |= {"user": ids["user_id"], "secret": ids["link_secret"], "address": ADDRESS}
    parameters |= {"conclusion_id": ids["advice_id"]}
    ended = ids["ended_iteration_id"]
    return ids | parameters | {"node_type": "Thing", "edge_type": "buys", "iteration_id": ended}


def _use_known_resources(case: AnyCase, resources: KnownResources) -> None:
    """Replaces generated ids with ids of existing resources."""
    is_destructive = case.method == "DELETE" or case.operation.label in DISABLING
    ids = resources.disposable if is_destructive else resources.permanent
    parameter_sets = [case.path_parameters, case.query]
    if isinstance(case.body, dict):
        case.body |= {name: ids[name] for name in BODY_FIELDS if name in case.body}
    for parameters in parameter_sets:
        for name in parameters:
            resource_name = PARAMETER_OVERRIDES.get((case.operation.label, name), name)
            if resource_name in ids:
                parameters[name] = ids[resource_name]
