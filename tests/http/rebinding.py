"""A name server and a sender of webhooks, in a separate network: the address of the name changes with each
query, as in DNS rebinding. Prints the problem of each attempt, and the number of connections to a receiver on
this machine, as JSON. ``test_webhook_sending`` runs it in separate namespaces (unshare), as ``python -m
tests.http.rebinding FOLDER``.
"""

import asyncio
import json
import socket
import struct
import subprocess
import sys
import threading
from itertools import cycle
from pathlib import Path

from keywright.delivery.webhooks.sending import Sender, SendingFailed, resolve
from tests.receiver import receiving

ATTEMPTS = 12
_A, _AAAA = 1, 28
#: A public address, and addresses of this machine: each lookup returns another one.
_ADDRESSES = {_A: cycle(["93.184.215.14", "127.0.0.1"]), _AAAA: cycle(["2606:2800::1", "::1"])}


def serve(server: socket.socket) -> None:
    """Answer each query with the next address, with a TTL of zero."""
    while True:
        question, client = server.recvfrom(512)
        end = question.index(b"\0", 12) + 5
        (kind,) = struct.unpack("!H", question[end - 4 : end - 2])
        family = socket.AF_INET6 if kind == _AAAA else socket.AF_INET
        records = b""
        if kind in _ADDRESSES:
            address = socket.inet_pton(family, next(_ADDRESSES[kind]))
            records = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(address)) + address
        header = question[:2] + struct.pack("!HHHHH", 0x8180, 1, bool(records), 0, 0)
        server.sendto(header + question[12:end] + records, client)


async def send(url: str) -> str:
    """Make one attempt; return its problem."""
    sender = Sender(url, (), resolve=resolve)
    try:
        await sender.send({}, b"{}")
    except SendingFailed as problem:
        return str(problem)
    finally:
        sender.close()
    return "sent"


def main(folder: Path) -> None:
    configuration = folder / "resolv.conf"
    configuration.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
    subprocess.run(["mount", "--bind", str(configuration), "/etc/resolv.conf"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    with receiving() as receiver:
        url = f"http://rebinding.example.com:{receiver.port}/"
        problems = [asyncio.run(send(url)) for _ in range(ATTEMPTS)]
        print(json.dumps({"problems": problems, "connections": receiver.connections}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
