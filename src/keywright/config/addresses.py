"""Addresses that the server listens at, as the settings write them and as links do."""

from ipaddress import ip_address


def split_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 address is in brackets there."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def reachable_host(host: str) -> str:
    """Where a server that listens there is reached from this machine, also if it listens at every address."""
    # Nothing is bound here.
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def web_address(host: str, port: int | str) -> str:
    """Write the address for links."""
    host = reachable_host(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_this_machine(host: str) -> bool:
    """Whether the host is a loopback address, or a name of one."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
