"""The corpora of the sandbox, which the command line adds and agents name."""

from http import HTTPStatus
from typing import Final

import httpx

from services.api.http.problem_details import ProblemError
from shared.errors import TransientError
from shared.runtime.settings import Settings
from shared.tls import tls_context

ANSWER_SECONDS: Final = 5.0


async def require_corpus(settings: Settings, name: str) -> None:
    """Raises ProblemError if no sandbox searches or it has no such corpus, and TransientError if it does not answer."""
    if not settings.search_is_sandbox or settings.tavily_base_url is None:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "no-sandbox",
            "Only the sandbox can search a corpus, and this installation searches the web. Create the agent without one.",
        )
    status = await _ask(settings, f"{settings.tavily_base_url.rstrip('/')}/corpora/{name}")
    if status == HTTPStatus.NOT_FOUND:
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "no-such-corpus",
            f"corpus: the sandbox has no corpus {name!r}. `vigil agent create --corpus FOLDER` adds a folder, and creates "
            "an agent that searches it.",
        )
    if status != HTTPStatus.OK:
        raise TransientError(f"the sandbox answered {status} when it was asked for its corpora")


async def _ask(settings: Settings, url: str) -> int:
    key = settings.tavily_api_key
    headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        async with httpx.AsyncClient(verify=tls_context(), timeout=ANSWER_SECONDS) as client:
            return (await client.get(url, headers=headers)).status_code
    except httpx.HTTPError as error:
        raise TransientError("the sandbox cannot be reached") from error
