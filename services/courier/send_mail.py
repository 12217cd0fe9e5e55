"""Sending by mail: one plain mail for each inbox item."""

from typing import Final

from services.courier.parcel import ItemData, Parcel, TrialData
from services.courier.verdict import Never, NotNow, Taken, Verdict
from shared.errors import PermanentError, TransientError
from shared.mail import mailer
from shared.mail.mailer import Mailer, MailServerAwayError

OF_THE_MAIL: Final = ("mail_refused", "mail_address")
"""Codes of what no other attempt can mend; the others are the installation's trouble, and somebody may mend that."""
MAIL_OFF: Final = "mail_off"
UNSENT: Final = "this installation's mail server did not take the mail; the operator finds the reason in the courier's log"


class MailSender:
    seconds = mailer.SENDING_SECONDS

    def __init__(self, by: Mailer) -> None:
        self._mailer = by

    async def send(self, parcel: Parcel) -> Verdict:
        try:
            await self._mailer.send(
                to=parcel.address,
                subject=subject(parcel.message.data),
                text=text(parcel.message.data),
                # The same at every attempt: who gets it twice sees one mail.
                message_id=str(parcel.delivery_id),
            )
        except MailServerAwayError as error:
            return NotNow(UNSENT, details=str(error))
        except TransientError as error:
            return NotNow(str(error))
        except PermanentError as error:
            if error.code in OF_THE_MAIL:
                return Never(str(error))
            return NotNow(str(error) if error.code == MAIL_OFF else UNSENT, details=str(error))
        return Taken()


def subject(data: ItemData | TrialData) -> str:
    return f"[{data.agent_name}] {data.title}" if isinstance(data, ItemData) else data.title


def text(data: ItemData | TrialData) -> str:
    """For people: what is advised, why, and where there is more."""
    parts = [data.summary]
    if isinstance(data, ItemData):
        parts.append(data.content or "")
        if data.confidence is not None:
            parts.append(f"Confidence: {data.confidence:.0%}")
        if data.horizon is not None:
            parts.append(f"Holds until: {data.horizon}")
        if data.invalidation is not None:
            parts.append(f"What would prove it wrong: {data.invalidation}")
        more = data.link or "vigil inbox"
        parts.append(f"--\n{data.agent_name}, an agent of Vigil. More: {more}")
    return "\n\n".join(part for part in parts if part) + "\n"
