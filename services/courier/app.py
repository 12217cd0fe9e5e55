"""The courier's composition root."""

from collections.abc import Mapping

from services.courier.deliver import Deliver, Sender
from services.courier.network import CheckedTransport, resolver
from services.courier.rounds import SLOTS, Rounds
from services.courier.send_mail import MailSender
from services.courier.send_webhook import WebhookSender
from shared.events.models import AdviceProduced
from shared.mail.mailer import Mailer
from shared.runtime.actor import Actor
from shared.runtime.reaching import bus_of, database_of
from shared.runtime.settings import Settings
from shared.store.words import DestinationKind

POOL_SIZE = 8


def build(settings: Settings) -> Actor:
    """Raises PermanentError where the settings for mail cannot be used."""
    slots = settings.slots or SLOTS
    database = database_of(settings, "courier", pool_size=POOL_SIZE)
    webhooks = WebhookSender(CheckedTransport(resolver(slots), private=settings.webhook_private))
    senders: Mapping[DestinationKind, Sender] = {
        DestinationKind.WEBHOOK: webhooks,
        DestinationKind.MAIL: MailSender(Mailer(settings)),
    }
    rounds = Rounds(
        database,
        Deliver(database, senders, settings.public_url),
        worker=settings.worker_name,
        slots=slots,
        drain_seconds=settings.drain_seconds,
    )
    return Actor(
        "courier",
        handlers={AdviceProduced: rounds.wake},
        bus=bus_of(settings, "courier"),
        database=database,
        slots=1,
        drain_seconds=settings.drain_seconds,
        background=[rounds.go_for_ever],
        closing=[webhooks.close],
    )
