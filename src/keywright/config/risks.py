"""Settings that work, but help an attacker."""

from keywright.config.settings import Settings
from keywright.db import database_path, find_unverified_hosts
from keywright.db.urls import is_local


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
    server = settings.smtp_server
    if server is not None and not (server.is_encrypted or server.needs_tls or is_local(server.host)):
        risks.append(
            f"mails go to {server.host} without TLS (smtp_tls is none): anyone on the network between can "
            "read license keys, sign-in codes and the password. Let smtp_tls be auto."
        )
    if not settings.trusted_proxies and not is_local(settings.host):
        risks.append(
            f"the server listens on {settings.host}, and trusted_proxies names no proxy: if one stands in "
            "front of it, all callers share the proxy's address, and one who guesses uses up the limits of "
            "all. Add the proxy to trusted_proxies."
        )
    return risks
