"""Resolves hosts, and decides which addresses are public."""

import ipaddress
import socket
from collections.abc import Sequence

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""The network of IPv4 addresses embedded in IPv6 addresses (RFC 6052)."""
_INNER = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"),
    )
)
"""Networks that are not public, but that some Python versions report as global.

These are protocol assignments (RFC 6890), which include the metadata service 192.0.0.192; relays to IPv6 (RFC
7526); Azure's service for its virtual machines ("What is IP address 168.63.129.16?", learn.microsoft.com);
and documentation (RFC 9637)."""
_MOST_ADDRESSES = 8
"""Maximum number of addresses of one host that are used."""


def addresses_of(host: str, port: int) -> tuple[str, ...]:
    """Resolve a host name or address; without a result, the host has no address. Blocking."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))[:_MOST_ADDRESSES]


def are_public(addresses: Sequence[str]) -> bool:
    """Return whether there is at least one address, and all addresses are public."""
    return bool(addresses) and all(map(is_public, addresses))


def is_public(address: str) -> bool:
    """Return whether an address is an ordinary address on the internet.

    Returns False for addresses of this machine, its network or its cloud, and for tunnels to such addresses.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        elif ip.sixtofour is not None or ip.teredo is not None or ip.is_site_local:
            return False  # tunnels to an embedded IPv4 address, and obsolete private networks
    if ip.is_multicast or ip.is_reserved or any(ip in network for network in _INNER):
        return False
    return ip.is_global
