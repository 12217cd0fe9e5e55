"""Service accounts: each service's uid, and whether it has a NATS user and a PostgreSQL role."""

from dataclasses import dataclass
from typing import Final

from shared.database.grants import GRANTS
from shared.events.permissions import PERMISSIONS

MIGRATE: Final = "migrate"


@dataclass(frozen=True)
class Service:
    """`uid` is that of its container, fixed forever in every image: volumes outlive images."""

    name: str
    uid: int

    @property
    def has_nats_user(self) -> bool:
        return self.name in PERMISSIONS

    @property
    def has_database_role(self) -> bool:
        return self.name in GRANTS


SERVICES: Final = (
    Service(MIGRATE, 10000),
    Service("scheduler", 10001),
    Service("observer", 10002),
    Service("researcher", 10003),
    Service("aggregator", 10004),
    Service("analyzer", 10005),
    Service("adviser", 10006),
    Service("api", 10007),
    Service("operator", 10008),
    Service("sandbox", 10009),
    Service("assistant", 10010),
    Service("notifier", 10011),
)

KEYS_GROUP: Final = 10000
"""gid that may read all keys: that of `migrate`, which sets the passwords of the roles."""

NATS_PASSWORD_FILE: Final = "vigil_nats_password"
DATABASE_PASSWORD_FILE: Final = "vigil_database_password"
TOKEN_FILE: Final = "vigil_token"
"""One of the operator's keys: the token that the installation's own commands use at its API."""
