"""Addresses that webhooks may not reach. Pure."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address


_UNICAST: Final = IPv6Network("2000::/3")


_BROADCAST: Final = IPv4Address("255.255.255.255")


_NAT64: Final = IPv6Network("64:ff9b::/96")


_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""Each network decides where in such an address the IPv4 address is (RFC 8215), so what it reaches is unknown."""


_METADATA: Final = frozenset(
    map(ip_address, ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
)
"""Where clouds tell a machine its credentials."""


_NOBODY: Final = "is link-local, of many machines or of none, or tells a machine's credentials"


_EMBEDDING: Final = IPv6Network("::/96")
"""IPv4 addresses as IPv6 once wrote them; nobody uses it, and some systems still follow it."""


def refusal(address: Address, *, private: bool) -> str | None:
    """Why nothing is sent there, in words; None where it may be.

    `private` lets loopback and private networks through, and still no address that can be nobody's receiver:
    link-local ones, those of clouds' metadata, and those that name many machines or none.
    """
    address = _meant(address)
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return _NOBODY
    if address in _METADATA or address == _BROADCAST or address in _LOCAL_NAT64:
        return _NOBODY
    if private or _is_public(address):
        return None
    return "is private, of this machine or reserved"


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_reserved


def _meant(address: Address) -> Address:
    """The IPv4 address within an IPv6 one that is only another way to write it, or to reach it."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and (address in _NAT64 or (address in _EMBEDDING and int(address) > 1)):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def parsed(text: str) -> Address | None:
    """None where it is a name and no address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None
