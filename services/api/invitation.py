"""Sign-in links: made, and brought to whom they are for."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.api.owner import Owner
from services.api.problems import TooManyError
from shared.errors import TransientError, VigilError
from shared.mail.mailer import Mailer
from shared.runtime.logs import logger
from shared.runtime.settings import Settings
from shared.store import sign_in, users
from shared.store.database import Database
from shared.store.reading.access_shapes import SignInLinkView
from shared.store.tables import SignInLink, User

MINUTES: Final = sign_in.LINK_LIFETIME // timedelta(minutes=1)

log = logger(__name__)


class Invitations:
    """Links go by mail where there is a mail server and an address, and else into this process's log."""

    def __init__(
        self, settings: Settings, database: Database, owner: Owner, mailer: Mailer
    ) -> None:
        self._base = settings.reached_at
        self._database = database
        self._owner = owner
        self._mailer = mailer

    async def make(self, session: AsyncSession, user_id: UUID) -> SignInLinkView:
        """For who is told of it in the answer. Raises TooManyError."""
        made = await sign_in.create_link(session, user_id)
        if made is None:
            raise TooManyError(
                f"This user has {sign_in.MOST_LINKS} sign-in links that were not used: use one of them.",
                sign_in.LINK_LIFETIME.total_seconds(),
            )
        link, secret = made
        return SignInLinkView(url=self._url(secret), expires_at=link.expires_at)

    async def bring(self, reference: str) -> None:
        """To the user of that name or mail address, where there is one.

        Whoever asked has had his answer: what goes wrong here is told to the log.
        """
        try:
            await self._owner.id()
            async with self._database.transaction() as session:
                user = await users.find(session, reference)
                if user is None or user.disabled_at is not None:
                    return
                made = await sign_in.create_link(session, user.id)
            if made is not None:
                await self._deliver(user, *made)
        except TransientError as error:
            log.warning("a sign-in link could not be made", error=str(error))

    async def welcome(self) -> None:
        """For the owner of a new installation, who has not come in by a browser yet."""
        owner_id = await self._owner.id()
        async with self._database.transaction() as session:
            if not await sign_in.never_signed_in(session, owner_id):
                return
            owner = await session.get_one(User, owner_id)
            made = await sign_in.create_link(session, owner_id)
        if made is not None:
            self._print(owner, made[1])

    async def _deliver(self, user: User, link: SignInLink, secret: str) -> None:
        if user.email is None or not self._mailer.enabled:
            self._print(user, secret)
            return
        try:
            await self._mailer.send(
                to=user.email,
                subject="Your sign-in link for Vigil",
                text=_letter(user.name, self._url(secret)),
                message_id=str(link.id),
            )
        except VigilError as error:
            log.error("a sign-in link could not be mailed", user=user.name, error=str(error))
            async with self._database.transaction() as session:
                await sign_in.delete_link(session, link.id)

    def _print(self, user: User, secret: str) -> None:
        log.warning(
            f"open this link within {MINUTES} minutes to sign in",
            user=user.name,
            sign_in_link=self._url(secret),
        )

    def _url(self, secret: str) -> str:
        return sign_in.link_url(self._base, secret)


def _letter(name: str, url: str) -> str:
    return f"""\
Hello {name},

open this link to sign in to Vigil. It works once, within {MINUTES} minutes:

{url}

If you did not ask for it, do nothing: nobody can sign in without this mail.
"""
