"""Settings that work, but help an attacker."""

import ipaddress

from keywright.config.settings import Settings
from keywright.db import database_path, find_unverified_hosts


def risks(settings: Settings) -> list[str]:
    """Return a sentence for each risk of the settings, with what to do. None of them is an error."""
    risks = []
    for name in ("database_url", "read_database_url"):
        url: str | None = getattr(settings, name)
        if url is not None and database_path(url) is None and (hosts := find_unverified_hosts(url)):
            risks.append(
                f"the connection to {', '.join(hosts)} ({name}) is not protected by verified TLS: anyone on "
                "the network between can read and change what goes over it. Add sslmode=verify-full and "
                "sslrootcert to the URL."
            )
    if not settings.trusted_proxies and not _is_loopback(settings.host):
        risks.append(
            f"the server listens on {settings.host}, and trusted_proxies names no proxy: if one stands in "
            "front of it, all callers share the proxy's address, and one who guesses uses up the limits of "
            "all. Add the proxy to trusted_proxies."
        )
    return risks


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
