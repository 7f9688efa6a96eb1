"""Addresses: which hosts anybody on the internet could ask as well, and which only somebody in here can.

A page or a file can make a model fetch what its author cannot reach: a router, a database, the metadata
service of a cloud. So whatever is not plainly public counts as outside of what may be fetched unasked.
"""

import ipaddress
import socket
from collections.abc import Sequence

from ..failure import ToolFailure
from ..text import one_line

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that stand for IPv4 ones in networks without IPv4 (RFC 6052)."""
_INNER = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))
"""Not everybody's, and some Pythons do not know: protocol assignments (RFC 6890; in them 192.0.0.192, the
metadata of a cloud), relays to IPv6 (RFC 7526), Azure's own service for its machines ("What is IP
address 168.63.129.16?", learn.microsoft.com), documentation (RFC 9637)."""
_MOST = 8
"""Addresses of one host that are looked at."""


def addresses_of(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host, as the system resolves it: a name, or any way of writing an address. Blocks.

    Raises:
        ToolFailure: it has none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise no_such_host(host) from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))[:_MOST]


def no_such_host(host: str) -> ToolFailure:
    return ToolFailure(
        f"The address of {one_line(host)} could not be found: check the host's name, or the network.",
        brief="no such host ✗",
    )


def are_public(addresses: Sequence[str]) -> bool:
    """Whether all of them are. One that is not is enough to reach what is not."""
    return bool(addresses) and all(map(is_public, addresses))


def is_public(address: str) -> bool:
    """Whether it is an ordinary address of the internet: not of this machine, its network or its cloud, and
    none through which such a one is reached."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif found in _NAT64:
            found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        elif found.sixtofour is not None or found.teredo is not None or found.is_site_local:
            return False  # tunnels to an IPv4 address within it, and an old kind of private network
    inner = any(found in network for network in _INNER)
    return found.is_global and not (inner or found.is_multicast or found.is_reserved)
