"""Lists of ids as PostgreSQL reads them."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import ARRAY, Text, Uuid, any_, bindparam, cast

ANY_OF_IDS: Final = any_(cast(bindparam("ids", type_=Text), ARRAY(Uuid)))
"""What an id equals that is among `ids`, in statements that are given these, `listed`, each time."""


def listed(ids: Iterable[UUID]) -> str:
    """For `cast(… as uuid[])`. Written at once: psycopg would look for the spelling of each, which takes far longer."""
    return "{" + ",".join([each.hex for each in ids]) + "}"
