"""The notifier's composition root."""

from collections.abc import Mapping

from services.notifier.channels import MailSender, WebhookSender
from services.notifier.delivery import Deliver, Sender
from services.notifier.dispatcher import CONCURRENCY, DeliveryLoop
from services.notifier.router import create_router
from shared.enums import DestinationKind
from shared.fetch.transport import CheckedTransport, resolver
from shared.notifications.smtp import Mailer
from shared.runtime.connections import create_bus, create_database
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings

POOL_SIZE = 8


def build(settings: Settings) -> MessageConsumer:
    """Raises PermanentError if the mail settings are invalid."""
    concurrency = settings.concurrency or CONCURRENCY
    database = create_database(settings, "notifier", pool_size=POOL_SIZE)
    webhooks = WebhookSender(
        CheckedTransport(
            resolver(concurrency),
            private=settings.webhook_private,
            setting="VIGIL_WEBHOOK_PRIVATE",
        )
    )
    senders: Mapping[DestinationKind, Sender] = {
        DestinationKind.WEBHOOK: webhooks,
        DestinationKind.MAIL: MailSender(Mailer(settings.smtp_url, settings.mail_from)),
    }
    loop = DeliveryLoop(
        database,
        Deliver(database, senders, settings.public_url),
        worker=settings.worker_name,
        concurrency=concurrency,
        drain_seconds=settings.drain_seconds,
    )
    return MessageConsumer(
        "notifier",
        create_router(loop.wake),
        bus=create_bus(settings, "notifier"),
        database=database,
        background=[loop.run_forever],
        closing=[webhooks.close],
    )
