"""Creates that may be asked for twice, by a client that saw no answer: an Idempotency-Key makes them one.

The key is kept for a day with the answer, in the transaction that makes what was asked for: there is either both or
neither, whatever is killed. While one request is at it, a second with its key is told to wait, and asks again.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from sqlalchemy import ColumnElement, delete, func, select
from starlette.responses import JSONResponse, Response

from services.api.auth.dependencies import Access, Owned
from services.api.http.problem_details import ConflictError, ProblemError
from shared.database.tables import IdempotencyKey

KEPT: Final = timedelta(hours=24)
PRUNED_AT_ONCE: Final = 100
REPEATED: Final = {"Idempotency-Replayed": "true"}
SHOWN_ONCE: Final = {"Cache-Control": "no-store"}

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Any word of your own for this request: sent again with it within 24 hours, nothing is made twice",
    ),
]


@dataclass(frozen=True)
class Once:
    """One request that makes something."""

    access: Access
    key: str | None
    request_hash: str

    async def answer(
        self, make: Callable[[], Awaitable[BaseModel]], *, holds_secret: bool = False
    ) -> Response:
        """201 with what `make` makes, or the answer that was given to this request before.

        Where the answer `holds_secret` nobody keeps it, and asking again is refused: a secret is shown once.
        Raises ProblemError where the key was another request's, or that request has not ended.
        """
        headers = SHOWN_ONCE if holds_secret else None
        if self.key is None:
            return _created((await make()).model_dump_json().encode(), headers)
        await self._refuse_meanwhile(self.key)
        if (before := await self._before(self.key)) is not None:
            return before
        body = (await make()).model_dump_json().encode()
        self.access.session.add(
            IdempotencyKey(
                owner_id=self.access.owner_id,
                key=self.key,
                request_hash=self.request_hash,
                status=HTTPStatus.CREATED,
                body=None if holds_secret else body,
            )
        )
        await self._prune()
        return _created(body, headers)

    async def _refuse_meanwhile(self, key: str) -> None:
        """Holds the key until the transaction ends."""
        number = func.hashtextextended(f"idempotency {self.access.owner_id} {key}", 0)
        if not await self.access.session.scalar(select(func.pg_try_advisory_xact_lock(number))):
            raise ConflictError(
                "in-progress",
                "A request with this Idempotency-Key is at it: ask again in a second.",
            )

    async def _before(self, key: str) -> Response | None:
        found = await self.access.session.get(IdempotencyKey, (self.access.owner_id, key))
        if found is None:
            return None
        if await self.access.session.scalar(select(found.created_at < _oldest())):
            await self.access.session.delete(found)
            await self.access.session.flush()
            return None
        if found.request_hash != self.request_hash:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "other-request",
                "This Idempotency-Key was given with another request: take a new one for each.",
            )
        if found.body is None:
            raise ConflictError(
                "made-already",
                "This was made already, and its secret shown: if that was lost, delete it and make another.",
            )
        return _created(found.body, REPEATED)

    async def _prune(self) -> None:
        """Some of what is too old, so that nobody has to go round for it."""
        old = (
            select(IdempotencyKey.owner_id, IdempotencyKey.key)
            .where(IdempotencyKey.created_at < _oldest())
            .limit(PRUNED_AT_ONCE)
            .with_for_update(skip_locked=True)
            .cte("old")
        )
        await self.access.session.execute(
            delete(IdempotencyKey)
            .where(IdempotencyKey.owner_id == old.c.owner_id, IdempotencyKey.key == old.c.key)
            .execution_options(synchronize_session=False)
        )


async def _once(access: Owned, request: Request, key: Key = None) -> Once:
    asked = sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    asked.update(await request.body())
    return Once(access, key, asked.hexdigest())


AskedOnce = Annotated[Once, Depends(_once, scope="function")]


def _created(body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, HTTPStatus.CREATED, headers, media_type=JSONResponse.media_type)


def _oldest() -> ColumnElement[datetime]:
    return func.statement_timestamp() - KEPT
