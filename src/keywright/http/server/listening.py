"""The listening sockets of a server: one, and perhaps a second one for the administration pages."""

import re
import socket
from contextlib import ExitStack
from typing import Self

from keywright.config import Settings
from keywright.config.installation import mark_server
from keywright.config.values import is_this_machine, web_address
from keywright.core import errors as e

#: The most connections that wait until they are accepted.
BACKLOG = 2048
#: A host, or an IPv6 address in brackets, with or without a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)

Address = tuple[str, int]


class ListeningSockets:
    """The open sockets of one server, shared by its workers."""

    def __init__(self, settings: Settings, public: socket.socket, admin: socket.socket | None) -> None:
        self.sockets = [public] if admin is None else [public, admin]
        mark_server(settings, _address_of(public))
        #: The base URL of the server.
        self.url = settings.public_url or web_address(*_address_of(public))
        #: The base URL of the administration pages, if they are served.
        self.admin_url = self.url if admin is None else web_address(*_address_of(admin))
        #: The only address that serves the administration pages; None where every address does.
        self.admin_address = None if admin is None else _address_of(admin)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Listen at the addresses of the settings. Raises ``ConfigurationError`` when one cannot be used."""
        with ExitStack() as stack:
            choose = "Choose another address with --host and --port."
            public = stack.enter_context(_listen((settings.host, settings.port), choose))
            admin = settings.admin_host_and_port
            other = None if admin is None else _listen(admin, "Choose another admin_address.")
            if settings.metrics_host_and_ports is not None:
                host, ports = settings.metrics_host_and_ports
                for port in ports:
                    # Each worker opens its own later; here, a taken one can still be reported in a sentence.
                    _listen((host, port), "Choose another metrics_address.").close()
            # The caller closes them.
            stack.pop_all()
        return cls(settings, public, other)

    def close(self) -> None:
        """Stop listening in this process."""
        for one in self.sockets:
            one.close()


def base_of_links(public_url: str | None, scheme: str, host: str) -> str:
    """The beginning of links with a secret in them: the setting, or the ``Host`` of the request where that is
    this machine itself; any other may be made up, and the secret would go there. Raises ``PublicUrlMissing``.
    """
    found = _HOST.fullmatch(host)
    if public_url is None and (found is None or not is_this_machine(found[1] or found[2])):
        raise e.PublicUrlMissing
    return public_url or f"{scheme}://{host}"


def is_at(server: Address | None, address: Address) -> bool:
    """Whether a connection to ``server`` came in at the address; 0.0.0.0 and :: stand for any host."""
    return server is not None and server[1] == address[1] and address[0] in (server[0], "0.0.0.0", "::")  # noqa: S104


def _address_of(listening: socket.socket) -> Address:
    host, port = listening.getsockname()[:2]
    return host, port


def _listen(address: Address, advice: str) -> socket.socket:
    host, port = address
    try:
        family, kind, protocol, _, found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(found)
            listening.listen(BACKLOG)
            stack.pop_all()
    except OSError as problem:
        raise e.ConfigurationError(
            f"{host}:{port} cannot be listened on: {problem.strerror}. {advice}"
        ) from problem
    return listening
