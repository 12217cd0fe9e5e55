"""The notifier's composition root."""

from collections.abc import Mapping

from services.notifier.channels import CheckedTransport, MailSender, WebhookSender, resolver
from services.notifier.delivery import Deliver, Sender
from services.notifier.dispatcher import SLOTS, Rounds
from shared.enums import DestinationKind
from shared.events.models import AdviceProduced
from shared.notifications.smtp import Mailer
from shared.runtime.connections import bus_of, database_of
from shared.runtime.consumer import Actor
from shared.runtime.settings import Settings

POOL_SIZE = 8


def build(settings: Settings) -> Actor:
    """Raises PermanentError where the settings for mail cannot be used."""
    slots = settings.slots or SLOTS
    database = database_of(settings, "notifier", pool_size=POOL_SIZE)
    webhooks = WebhookSender(CheckedTransport(resolver(slots), private=settings.webhook_private))
    senders: Mapping[DestinationKind, Sender] = {
        DestinationKind.WEBHOOK: webhooks,
        DestinationKind.MAIL: MailSender(Mailer(settings.smtp_url, settings.mail_from)),
    }
    rounds = Rounds(
        database,
        Deliver(database, senders, settings.public_url),
        worker=settings.worker_name,
        slots=slots,
        drain_seconds=settings.drain_seconds,
    )
    return Actor(
        "notifier",
        handlers={AdviceProduced: rounds.wake},
        bus=bus_of(settings, "notifier"),
        database=database,
        slots=1,
        drain_seconds=settings.drain_seconds,
        background=[rounds.go_for_ever],
        closing=[webhooks.close],
    )
