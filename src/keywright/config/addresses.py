"""Addresses that the server listens at, as the settings write them and as links do."""


def split_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 address is in brackets there."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def web_address(host: str, port: int | str) -> str:
    """Write the address for links. A server that listens at every address of this machine is reached from
    this machine at its own.
    """
    # Nothing is bound here.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
