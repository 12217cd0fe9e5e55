"""A server that speaks OpenAI's tongues: reached, waited for where that is short, its failures sorted."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeVar

import httpx2
import openai
from openai import AsyncOpenAI

from shared.errors import PermanentError, TransientError, unbilled
from shared.store.storable import error_text

T = TypeVar("T")

NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
REFUSED_REQUEST: Final = "llm_request"
"""The code of what is refused for what it asks, and not for who asks or whom."""
QUICK_TRIES = 3
LONGEST_QUICK_WAIT_SECONDS = 5.0
"""Short trouble is waited out here. For longer waits the step is given back, so that they hold up no slot and no lease;
the SDK's own retries would sleep through any Retry-After."""


class ModelServer:
    """One connection pool to it."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout_seconds: float) -> None:
        self._where = base_url or "OpenAI"
        self.client = AsyncOpenAI(
            api_key=api_key, base_url=base_url, timeout=timeout_seconds, max_retries=0
        )

    async def close(self) -> None:
        await self.client.close()

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask`, which goes through `asked`, gives; short trouble is waited out."""
        for tried in range(1, QUICK_TRIES):
            try:
                return await ask()
            except TransientError as error:
                wait_seconds = error.retry_in_seconds or 0.5 * 2.0**tried
                if wait_seconds > LONGEST_QUICK_WAIT_SECONDS:
                    raise
            await asyncio.sleep(wait_seconds)
        return await ask()

    async def asked(self, call: Awaitable[T], model: str) -> T:
        """What a call of `client` gives.

        Raises PermanentError for what another try cannot mend (key, model, request), TransientError for the rest.
        """
        try:
            return await call
        except openai.APIConnectionError as error:  # its subclass APITimeoutError too
            unanswered = TransientError(
                f"no answer from the model server at {self._where}: {error}"
            )
            never_sent = isinstance(error.__cause__, NEVER_SENT)
            raise (unbilled(unanswered) if never_sent else unanswered) from error
        except openai.APIStatusError as error:
            refused = self._status_error(error, model)
            raise (unbilled(refused) if _is_refusal(error.status_code) else refused) from error
        except httpx2.TransportError as error:
            # The SDK wraps it where an answer begins, not within a stream.
            raise TransientError(
                f"the answer from {self._where} broke off: {error or type(error).__name__}"
            ) from error
        except (openai.APIError, ValueError) as error:
            raise TransientError(f"the model server's answer is not readable: {error}") from error

    def _status_error(
        self, error: openai.APIStatusError, model: str
    ) -> PermanentError | TransientError:
        said = f"{self._where} answered {error.status_code}: {error_text(_reason(error))}"
        match error.status_code:
            case 401 | 403:
                return PermanentError("llm_key", f"{said}. Check OPENAI_API_KEY")
            case 404:
                return PermanentError(
                    "llm_model",
                    f"{said}. Check the model name {model!r}, OPENAI_BASE_URL and VIGIL_MODEL_API",
                )
            case 429 if error.code == "insufficient_quota":
                return PermanentError("llm_quota", f"{said}. Check the account's plan and billing")
            case 408 | 409 | 429:
                return TransientError(said, retry_in_seconds=_retry_after_seconds(error))
            case status if status >= 500:
                return TransientError(said, retry_in_seconds=_retry_after_seconds(error))
            case _:
                return PermanentError(REFUSED_REQUEST, said)


def _is_refusal(status: int) -> bool:
    """Whether the server says that it has not begun: 408 is what some gateways say when their server took too long."""
    return 400 <= status < 500 and status != HTTPStatus.REQUEST_TIMEOUT


def _reason(error: openai.APIStatusError) -> str:
    """What the server said, without what the SDK wraps around it."""
    body = error.body
    told = body.get("message") if isinstance(body, dict) else None
    return (told if isinstance(told, str) else error.message).rstrip(". ")


def _retry_after_seconds(error: openai.APIStatusError) -> float | None:
    try:
        seconds = float(error.response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
