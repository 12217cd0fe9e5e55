"""The corpora of the sandbox, which the command line adds and agents name."""

from http import HTTPStatus
from typing import Final

import httpx

from services.api.http.problem_details import ProblemError
from shared.accounts.authentication import Caller
from shared.errors import TransientError
from shared.runtime.settings import Settings
from shared.tls import tls_context

ANSWER_SECONDS: Final = 5.0


async def require_corpus(settings: Settings, name: str, caller: Caller) -> None:
    """Raises ProblemError if no sandbox searches or the caller has no such corpus there, and TransientError if it does
    not answer. A corpus of another user is refused like one that does not exist.
    """
    if not settings.search_is_sandbox or settings.tavily_base_url is None:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "no-sandbox",
            "Only the sandbox can search a corpus, and this installation searches the web. Create the agent without one.",
        )
    answer = await _fetch(settings, f"{settings.tavily_base_url.rstrip('/')}/corpora/{name}")
    if answer.status_code not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise TransientError(
            f"the sandbox answered {answer.status_code} when it was asked for its corpora"
        )
    if answer.status_code == HTTPStatus.NOT_FOUND or not _may_use(caller, answer.json()["owner"]):
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "no-such-corpus",
            f"corpus: you have no corpus {name!r} in the sandbox. `vigil agent create --corpus FOLDER` adds a folder, and "
            "creates an agent that searches it.",
        )


def _may_use(caller: Caller, owner: str | None) -> bool:
    """Returns true for the owner, and for operators if there is none: an older version recorded no owners."""
    return caller.is_operator if owner is None else owner == str(caller.user_id)


async def _fetch(settings: Settings, url: str) -> httpx.Response:
    key = settings.tavily_api_key
    headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        async with httpx.AsyncClient(verify=tls_context(), timeout=ANSWER_SECONDS) as client:
            return await client.get(url, headers=headers)
    except httpx.HTTPError as error:
        raise TransientError("the sandbox cannot be reached") from error
