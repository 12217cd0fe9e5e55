"""Sign-in links: creation, limits and delivery."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from services.api.auth.middleware import (
    AttemptLimiter,
    RecentlyValidCredentials,
    ValidityCheck,
    address_digest,
)
from services.api.auth.owner import BootstrapOwner, log
from shared.accounts import credentials
from shared.database.engine import Database
from shared.database.tables import SignInLink, User
from shared.database.transaction import Transaction
from shared.errors import TransientError, VigilError
from shared.notifications.smtp import Mailer
from shared.runtime.settings import Settings
from shared.schemas.accounts import SignInLinkResponse

LIFETIME_MINUTES: Final = credentials.LINK_LIFETIME // timedelta(minutes=1)
MAX_LINKS_PER_ADDRESS: Final = 10
"""Links for one user that one address may request within a link's lifetime."""
MAX_LINKS_FROM_UNKNOWN: Final = 60
"""Links for one user that all unknown addresses together may request.

This limits the mail that strangers can cause. All of these links reach the user, so one is usable
when no more are sent.
"""


class SignInLinks:
    """Creates and delivers sign-in links: by mail where a mail server and an address are set, else
    to this process's log.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        owner: BootstrapOwner,
        mailer: Mailer,
        places: RecentlyValidCredentials,
    ) -> None:
        """`places` are the addresses from which users have signed in."""
        self._base = settings.base_url
        self._database = database
        self._owner = owner
        self._mailer = mailer
        self._places = places
        window_seconds = credentials.LINK_LIFETIME.total_seconds()
        self._of_address = AttemptLimiter(MAX_LINKS_PER_ADDRESS, window_seconds=window_seconds)
        self._of_strangers = AttemptLimiter(MAX_LINKS_FROM_UNKNOWN, window_seconds=window_seconds)
        self._users = ValidityCheck(database, credentials.find_active_references)

    async def make(self, session: Transaction, user_id: UUID) -> SignInLinkResponse:
        """Creates a link for an authenticated caller.

        It does not count towards the limits of unauthenticated requests.
        """
        link, secret = await credentials.create_link(session, user_id)
        return SignInLinkResponse(url=self._url(secret), expires_at=link.expires_at)

    async def send_link(self, reference: str, address: str) -> None:
        """Delivers a link to the user with that name or mail address, if there is one and the
        limits allow it.

        The HTTP response was sent before, so errors are logged.
        """
        try:
            await self._owner.id()
            if not await self._users.is_valid(reference):
                return
            async with self._database.transaction() as session:
                user = await credentials.find_user(session, reference)
                if user is None or user.disabled_at is not None:
                    return
                if not self._is_allowed(user, address):
                    return
                new_link = await credentials.create_link(session, user.id)
            await self._deliver(user, *new_link)
        except TransientError as error:
            log.warning("could not create a sign-in link", error=str(error))

    def _is_allowed(self, user: User, address: str) -> bool:
        """Counts a request for a link.

        Addresses from which the user has signed in before have a limit of their own.
        """
        place = address_digest(user.id, address)
        counts = [(self._of_address, place.hex())]
        if place not in self._places:
            counts.append((self._of_strangers, str(user.id)))
        if any(limiter.wait_seconds(key) > 0 for limiter, key in counts):
            return False
        for limiter, key in counts:
            limiter.add(key)
            if limiter.wait_seconds(key) > 0:
                log.warning(
                    "too many sign-in links were requested", user=user.name, address=address
                )
        return True

    async def send_owner_link(self) -> None:
        """Prints a link for the owner of a new installation, who has not signed in with a browser yet."""
        owner_id = await self._owner.id()
        async with self._database.transaction() as session:
            if not await credentials.has_never_signed_in(session, owner_id):
                return
            owner = await session.get_one(User, owner_id)
            new_link = await credentials.create_link(session, owner_id)
        self._print(owner, new_link[1])

    async def _deliver(self, user: User, link: SignInLink, secret: str) -> None:
        if user.email is None or not self._mailer.enabled:
            self._print(user, secret)
            return
        try:
            await self._mailer.send(
                to=user.email,
                subject="Your sign-in link for Vigil",
                text=_mail_text(user.name, self._url(secret)),
                message_id=str(link.id),
            )
        except VigilError as error:
            log.error("could not send a sign-in link by email", user=user.name, error=str(error))
            async with self._database.transaction() as session:
                await credentials.delete_link(session, link.id)

    def _print(self, user: User, secret: str) -> None:
        log.warning(
            f"open this link within {LIFETIME_MINUTES} minutes to sign in",
            user=user.name,
            sign_in_link=self._url(secret),
        )

    def _url(self, secret: str) -> str:
        return credentials.link_url(self._base, secret)


def _mail_text(name: str, url: str) -> str:
    return f"""\
Hello {name},

open this link to sign in to Vigil. It works once and expires in {LIFETIME_MINUTES} minutes:

{url}

If you did not request it, ignore this email: nobody can sign in without the link.
"""
