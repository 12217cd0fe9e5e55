"""A mail as it is written: nothing that it is made from can become a header of its own."""

from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses, localtime, make_msgid

from shared.errors import PermanentError

SUBJECT_CHARACTERS = 200


def letter(
    *, sender: Address, to: Address, subject: str, text: str, message_id: str | None
) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    message["Subject"] = _one_line(subject)
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = (
        f"<{message_id}@{sender.domain}>" if message_id else make_msgid(domain=sender.domain)
    )
    message["Auto-Submitted"] = "auto-generated"  # holiday notes do not answer it
    message.set_content(text)
    return message


def address(given: str) -> Address:
    """`name@host`, with or without a name before it. Raises PermanentError where it is no single address."""
    try:
        ((name, plain),) = getaddresses([given])
        found = Address(name, addr_spec=plain)
    except (MessageError, ValueError, IndexError) as error:
        raise _no_address(given) from error
    if not given.isprintable() or not found.username or not found.domain:
        raise _no_address(given)
    return found


def _no_address(given: str) -> PermanentError:
    return PermanentError("mail_address", f"{given!r} is no mail address: write name@host")


def _one_line(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= SUBJECT_CHARACTERS else f"{line[: SUBJECT_CHARACTERS - 1]}…"
