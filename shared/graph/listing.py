"""Lists of ids as PostgreSQL reads them."""

from collections.abc import Iterable
from uuid import UUID


def listed(ids: Iterable[UUID]) -> str:
    """For `cast(… as uuid[])`. Written at once: psycopg would look for the spelling of each, which takes far longer."""
    return "{" + ",".join([each.hex for each in ids]) + "}"
