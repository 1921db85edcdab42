"""Which addresses a page may be asked from: those of the public internet, after the name was looked up.

What a model asks for may come from a page it has read, so it must not reach what only this machine can: its own
services, its network's, and the cloud's that hands out credentials.
"""

import ipaddress
from typing import Final

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

#: a public address that a cloud's machines alone can reach
_METADATA: Final = frozenset({ipaddress.ip_address("168.63.129.16")})
#: an IPv4 address stands in the last 32 bits
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address, as getaddrinfo gives it, is one of the public internet."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return all(map(_is_global, _led_to(ip)))


def _is_global(ip: IP) -> bool:
    site = isinstance(ip, ipaddress.IPv6Address) and ip.is_site_local
    return ip.is_global and not (ip in _METADATA or ip.is_multicast or ip.is_reserved or site)


def _led_to(ip: IP) -> list[IP]:
    """The addresses that this one leads to or through; for most it is itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip in _NAT64:
        return [ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)]
    through = [ip.sixtofour] if ip.sixtofour is not None else [*(ip.teredo or ())]
    return [ip, *through]
