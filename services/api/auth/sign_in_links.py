"""Sign-in links: made, limited and delivered."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.api.auth.middleware import Attempts, Known, ValidityCheck, place_of
from services.api.auth.owner import Owner, log
from shared.accounts import credentials
from shared.database.engine import Database
from shared.database.tables import SignInLink, User
from shared.errors import TransientError, VigilError
from shared.notifications.smtp import Mailer
from shared.runtime.settings import Settings
from shared.schemas.accounts import SignInLinkView

MINUTES: Final = credentials.LINK_LIFETIME // timedelta(minutes=1)
MOST_OF_ADDRESS: Final = 10
"""Links for one user, within a link's lifetime, that one address may ask for."""
MOST_OF_STRANGERS: Final = 60
"""The same from all addresses together that the user has not come in from: what a user can be sent by strangers. All of
those links reach the user, so there is one to use when no more are sent."""


class Invitations:
    """Links go by mail where there is a mail server and an address, and else into this process's log."""

    def __init__(
        self, settings: Settings, database: Database, owner: Owner, mailer: Mailer, places: Known
    ) -> None:
        """`places` are addresses that users have come in from."""
        self._base = settings.reached_at
        self._database = database
        self._owner = owner
        self._mailer = mailer
        self._places = places
        window_seconds = credentials.LINK_LIFETIME.total_seconds()
        self._of_address = Attempts(MOST_OF_ADDRESS, window_seconds=window_seconds)
        self._of_strangers = Attempts(MOST_OF_STRANGERS, window_seconds=window_seconds)
        self._users = ValidityCheck(database, credentials.find_existing)

    async def make(self, session: AsyncSession, user_id: UUID) -> SignInLinkView:
        """For a caller that is let in already; what others ask for in its name does not count here."""
        link, secret = await credentials.create_link(session, user_id)
        return SignInLinkView(url=self._url(secret), expires_at=link.expires_at)

    async def bring(self, reference: str, address: str) -> None:
        """Delivers a link to the user of that name or mail address, where there is one and the limits allow it.

        The request was answered before: what goes wrong here is logged.
        """
        try:
            await self._owner.id()
            if not await self._users.is_valid(reference):
                return
            async with self._database.transaction() as session:
                user = await credentials.find(session, reference)
                if user is None or user.disabled_at is not None:
                    return
                if not self._is_allowed(user, address):
                    return
                made = await credentials.create_link(session, user.id)
            await self._deliver(user, *made)
        except TransientError as error:
            log.warning("a sign-in link could not be made", error=str(error))

    def _is_allowed(self, user: User, address: str) -> bool:
        """Counts a request for a link. Those from addresses that the user has come in from are counted by themselves."""
        place = place_of(user.id, address)
        counts = [(self._of_address, place.hex())]
        if place not in self._places:
            counts.append((self._of_strangers, str(user.id)))
        if any(counted.wait_seconds(key) > 0 for counted, key in counts):
            return False
        for counted, key in counts:
            counted.add(key)
            if counted.wait_seconds(key) > 0:
                log.warning(
                    "too many sign-in links were asked for", user=user.name, address=address
                )
        return True

    async def welcome(self) -> None:
        """For the owner of a new installation, who has not come in by a browser yet."""
        owner_id = await self._owner.id()
        async with self._database.transaction() as session:
            if not await credentials.never_signed_in(session, owner_id):
                return
            owner = await session.get_one(User, owner_id)
            made = await credentials.create_link(session, owner_id)
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
                await credentials.delete_link(session, link.id)

    def _print(self, user: User, secret: str) -> None:
        log.warning(
            f"open this link within {MINUTES} minutes to sign in",
            user=user.name,
            sign_in_link=self._url(secret),
        )

    def _url(self, secret: str) -> str:
        return credentials.link_url(self._base, secret)


def _letter(name: str, url: str) -> str:
    return f"""\
Hello {name},

open this link to sign in to Vigil. It works once, within {MINUTES} minutes:

{url}

If you did not ask for it, do nothing: nobody can sign in without this mail.
"""
