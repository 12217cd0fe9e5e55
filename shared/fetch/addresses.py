"""Which IP addresses webhooks and page requests must not reach (protection against SSRF). Pure."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address


_UNICAST: Final = IPv6Network("2000::/3")


_BROADCAST: Final = IPv4Address("255.255.255.255")


_NAT64: Final = IPv6Network("64:ff9b::/96")


_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
"""The position of the embedded IPv4 address depends on the network (RFC 8215), so its target is unknown."""


_METADATA: Final = frozenset(
    map(ip_address, ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
)
"""Metadata services of clouds, which return a machine's credentials."""


_NEVER_ALLOWED: Final = "is link-local, multicast, unspecified or a metadata service"


_IPV4_COMPATIBLE: Final = IPv6Network("::/96")
"""IPv4-compatible IPv6 addresses: deprecated, but some systems still connect to the IPv4 address."""


def refusal(address: Address, *, private: bool) -> str | None:
    """Why nothing is sent to this address; None if it is allowed.

    `private` allows loopback and private networks, but never link-local addresses, cloud metadata, multicast or
    unspecified addresses.
    """
    address = _effective_address(address)
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return _NEVER_ALLOWED
    if address in _METADATA or address == _BROADCAST or address in _LOCAL_NAT64:
        return _NEVER_ALLOWED
    if private or _is_public(address):
        return None
    return "is private, of this machine or reserved"


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_reserved


def _effective_address(address: Address) -> Address:
    """The IPv4 address that an IPv6 address embeds or translates to, otherwise `address` itself."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and (address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1)):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def parse(text: str) -> Address | None:
    """None if the text is a name and not an address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None
