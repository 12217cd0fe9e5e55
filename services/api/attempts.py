"""Bad attempts to come in, counted by where they come from.

Kept in this process's memory: to write each down in Postgres would make a flood of bad attempts into a flood of writes,
and secrets of 256 bits need no help against guessing. It is load that is limited, so with n replicas of the api there are
n times as many attempts. What is limited by account, the links that are mailed, is counted in Postgres.
"""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Final

WINDOW_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 10_000
MOST_KNOWN: Final = 10_000
_NETWORK_BITS: Final = 64
"""Of an IPv6 address: whoever has one has all that begin with these."""


class Attempts:
    """How many there were of each address in its present minute."""

    def __init__(self, limit: int, clock: Callable[[], float] = monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long no more attempts from there are looked at; 0: they are."""
        began, count = self._window(address)
        return 0.0 if count < self._limit else began + WINDOW_SECONDS - self._clock()

    def add(self, address: str) -> None:
        began, count = self._window(address)
        self._seen[address] = (began, count + 1)
        while len(self._seen) > MOST_ADDRESSES:
            self._seen.popitem(last=False)

    def _window(self, address: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._seen.get(address, (now, 0))
        if now - began < WINDOW_SECONDS:
            return began, count
        del self._seen[address]
        return now, 0


class Known:
    """Digests of credentials that have let somebody in here, the latest.

    They are looked at however many bad attempts come from the same address: who floods the api from behind the
    owner's proxy does not keep the owner out.
    """

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > MOST_KNOWN:
            self._digests.popitem(last=False)

    def discard(self, digest: bytes) -> None:
        self._digests.pop(digest, None)


def counted_as(host: str) -> str:
    """The address that attempts from `host` are counted by."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.exploded[: _NETWORK_BITS // 4 + _NETWORK_BITS // 16 - 1]
