"""A client process that tries to activate: ``python -m benchmarks.attempts HOST PORT CONNECTIONS``.

The first line of standard input is a JSON array of license keys. The process opens its connections, prints
``ready``, and starts when it reads the next line. It prints one line of JSON: an array with ``[key, status,
times_activated or null]`` for each attempt.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator

Result = tuple[str, int, int | None]

PATH = "/wp-json/lmfwc/v2/licenses/activate"
_LONGEST = 300


async def attempt_all(host: str, port: int, connections: int, keys: list[str]) -> list[Result]:
    """Try each key once, over this many concurrent connections."""
    async with asyncio.timeout(_LONGEST):
        streams = [await asyncio.open_connection(host, port) for _ in range(connections)]
        print("ready", flush=True)
        sys.stdin.readline()
        waiting = iter(keys)
        found = await asyncio.gather(*(_attempts(*stream, host, waiting) for stream in streams))
        for _, writer in streams:
            writer.close()
    return [result for results in found for result in results]


async def _attempts(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, waiting: Iterator[str]
) -> list[Result]:
    results = []
    for key in waiting:
        writer.write(f"GET {PATH}/{key} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        status, body = await _answer(reader)
        taken = json.loads(body)["data"]["timesActivated"] if status == 200 else None
        results.append((key, status, taken))
    return results


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    _, _, after = head.partition("content-length:")
    return int(head.split(" ", 2)[1]), await reader.readexactly(int(after.split("\r\n", 1)[0]))


def main() -> None:
    """Read the keys, try them, and print the results."""
    # On Ctrl-C, the parent process stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    host, port, connections = sys.argv[1:]
    keys = json.loads(sys.stdin.readline())
    print(json.dumps(asyncio.run(attempt_all(host, int(port), int(connections), keys))))


if __name__ == "__main__":
    main()
