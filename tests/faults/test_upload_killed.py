"""A server is killed in the middle of uploads, or its disk is full: a half upload is never published, and
can be made again.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from keywright.maintenance import doctor
from tests.faults.disks import a_disk
from tests.proving import record, size
from tests.server import KEYWRIGHT, NO_LIMITS, running

KILLS = size(5, 100)
PIECES, PIECE = 64, b"a build " * 8_192


def begin_upload(
    client: httpx.Client, file: int, until: int
) -> tuple[threading.Thread, threading.Event, threading.Event]:
    """An upload that waits after so many pieces; its thread, when that is, and what lets it go on."""
    half, go_on = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        for sent in range(PIECES):
            if sent == until:
                half.set()
                go_on.wait()
            yield PIECE

    def send() -> None:
        with suppress(httpx.HTTPError):
            client.put(f"/v3/files/{file}/content", content=pieces())

    sender = threading.Thread(target=send)
    sender.start()
    return sender, half, go_on


def test_a_half_upload_is_never_published(tmp_path: Path, database: str) -> None:
    published = 0
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        auth = server.api_key()
        with httpx.Client(base_url=server.base_url, auth=auth, timeout=30) as client:
            client.post("/v3/products", json={"id": 17, "name": "Paint"}).raise_for_status()
        for number in range(KILLS):
            with httpx.Client(base_url=server.base_url, auth=auth, timeout=30) as client:
                body = {"product_id": 17, "version": f"{number + 1}.0"}
                release = client.post("/v3/releases", json=body).raise_for_status().json()["id"]
                made = client.post(f"/v3/releases/{release}/files", json={"name": "paint.msi"})
                file = made.raise_for_status().json()["id"]
                sender, half, go_on = begin_upload(client, file, random.randrange(1, PIECES))
                half.wait()
                server.kill()
                go_on.set()
                sender.join()
            server.start()
            with httpx.Client(base_url=server.base_url, auth=auth, timeout=30) as client:
                refused = client.post(f"/v3/releases/{release}/publish", json={})
                published += refused.status_code != 409
                whole = client.put(f"/v3/files/{file}/content", content=PIECE * PIECES)
                assert whole.status_code == 200
                assert client.post(f"/v3/releases/{release}/publish", json={}).status_code == 200
        with server.storage() as storage:
            found = list(doctor.examine_files(storage, server.data_dir / "files"))
            found += list(doctor.examine(storage, lambda _: None))
    record("R28", f"uploads, {database}", {"kills": KILLS, "half uploads published": published})
    assert (published, found) == (0, [])


def test_an_upload_to_a_full_disk_leaves_nothing_and_is_made_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(a_disk(tmp_path / "disk", megabytes=1))
        settings = {"files_dir": str(disk.folder / "files"), **NO_LIMITS}
        program = [*disk.enter, KEYWRIGHT]
        server = stack.enter_context(running(tmp_path / "data", program=program, **settings))
        client = httpx.Client(base_url=server.base_url, auth=server.api_key(), timeout=30)
        stack.enter_context(client)
        client.post("/v3/products", json={"id": 17, "name": "Paint"}).raise_for_status()
        body = {"product_id": 17, "version": "1.0"}
        release = client.post("/v3/releases", json=body).raise_for_status().json()["id"]
        made = client.post(f"/v3/releases/{release}/files", json={"name": "paint.msi"})
        file = f"/v3/files/{made.raise_for_status().json()['id']}/content"
        free = disk.free
        refused = client.put(file, content=PIECE * PIECES)
        assert refused.status_code == 503
        assert refused.json()["detail"].startswith("The folder of files is unavailable right now.")
        assert client.get("/readyz").status_code == 200
        assert client.post(f"/v3/releases/{release}/publish", json={}).status_code == 409
        # Folders may stay, the bytes do not.
        assert disk.free >= free - 5 * 4_096
        disk.grow(32)
        assert client.put(file, content=PIECE * PIECES).status_code == 200
        assert client.post(f"/v3/releases/{release}/publish", json={}).status_code == 200
