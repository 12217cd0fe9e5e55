"""Idempotency keys: a repeated create with the same Idempotency-Key has one effect.

The key is stored for a day with the response, in the transaction of the create, so either both
exist or neither. A second request with the same key that arrives meanwhile is answered with a request to wait and
retry.
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

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.http.problem_details import ConflictError, ProblemError
from shared.database.tables import IdempotencyKey

KEY_LIFETIME: Final = timedelta(hours=24)
PRUNE_BATCH: Final = 100
REPLAY_HEADERS: Final = {"Idempotency-Replayed": "true"}
SHOWN_ONCE: Final = {"Cache-Control": "no-store"}

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A key of your choice: a repeated request with the same key within 24 hours creates nothing twice",
    ),
]


@dataclass(frozen=True)
class IdempotentRequest:
    """A create that may carry an Idempotency-Key."""

    access: Access
    key: str | None
    request_hash: str

    async def answer(
        self, make: Callable[[], Awaitable[BaseModel]], *, holds_secret: bool = False
    ) -> Response:
        """Returns 201 with the result of `make`, or the stored response of this request.

        A response that `holds_secret` is not stored, and repeating the request is refused: a secret
        is shown once. Raises ProblemError where the key belongs to another request, or that request
        is still running.
        """
        headers = SHOWN_ONCE if holds_secret else None
        if self.key is None:
            return _created_response((await make()).model_dump_json().encode(), headers)
        await self._refuse_meanwhile(self.key)
        if (earlier := await self._stored_response(self.key)) is not None:
            return earlier
        body = (await make()).model_dump_json().encode()
        await self.access.session.insert(
            IdempotencyKey,
            owner_id=self.access.owner_id,
            key=self.key,
            request_hash=self.request_hash,
            status=HTTPStatus.CREATED,
            body=None if holds_secret else body,
        )
        await self._prune()
        return _created_response(body, headers)

    async def _refuse_meanwhile(self, key: str) -> None:
        """Locks the key until the transaction ends."""
        number = func.hashtextextended(f"idempotency {self.access.owner_id} {key}", 0)
        if not await self.access.session.scalar(select(func.pg_try_advisory_xact_lock(number))):
            raise ConflictError(
                "in-progress",
                "Another request with this Idempotency-Key is in progress: try again in a second.",
            )

    async def _stored_response(self, key: str) -> Response | None:
        row = await self.access.session.get(IdempotencyKey, (self.access.owner_id, key))
        if row is None:
            return None
        if await self.access.session.scalar(select(row.created_at < _oldest())):
            await self.access.session.execute(
                delete(IdempotencyKey).where(
                    IdempotencyKey.owner_id == row.owner_id, IdempotencyKey.key == key
                )
            )
            return None
        if row.request_hash != self.request_hash:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "other-request",
                "This Idempotency-Key was used for a different request: use a new key for each request.",
            )
        if row.body is None:
            raise ConflictError(
                "made-already",
                "This was already created, and its secret was shown. If the secret is lost, delete it and create another.",
            )
        return _created_response(row.body, REPLAY_HEADERS)

    async def _prune(self) -> None:
        """Deletes a few expired keys, so that no separate job is needed."""
        old = (
            select(IdempotencyKey.owner_id, IdempotencyKey.key)
            .where(IdempotencyKey.created_at < _oldest())
            .limit(PRUNE_BATCH)
            .with_for_update(skip_locked=True)
            .cte("old")
        )
        await self.access.session.execute(
            delete(IdempotencyKey).where(
                IdempotencyKey.owner_id == old.c.owner_id, IdempotencyKey.key == old.c.key
            )
        )


async def _idempotent_request(
    access: OwnedAccess, request: Request, key: Key = None
) -> IdempotentRequest:
    request_digest = sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    request_digest.update(await request.body())
    return IdempotentRequest(access, key, request_digest.hexdigest())


Idempotent = Annotated[IdempotentRequest, Depends(_idempotent_request, scope="function")]


def _created_response(body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, HTTPStatus.CREATED, headers, media_type=JSONResponse.media_type)


def _oldest() -> ColumnElement[datetime]:
    return func.statement_timestamp() - KEY_LIFETIME
