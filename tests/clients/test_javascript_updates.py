"""The JavaScript client asks for updates, downloads them, and refuses what is not right."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_python_server import Vendor
from tests.clients.test_python_updates import CONTENT, OTHER_KEY, publish
from tests.makers import rotate_key
from tests.server import NO_LIMITS, running, wait_until
from tests.unit.test_versions import MINISIGN_KEY

UPDATES = Path(__file__).parents[2] / "clients" / "javascript" / "updates.js"
SCRIPT = """
import { writeFileSync, readFileSync, existsSync } from "node:fs";
const { checkForUpdate, download, verifyUpdate } = await import(process.argv[1]);
const { url, keys, folder, fileKey, otherKey, ask } = JSON.parse(process.argv[2]);
const asked = { url, publicKeys: keys, product: "editor", licenseKey: "EDITOR-1", appVersion: "1.0", ...ask };
const found = await checkForUpdate(asked);
const out = { code: found.code, codes: found.codes, version: found.release?.version };
if (found.file) {
  const path = await download(found.file, folder, { fileKeys: [fileKey] });
  const part = `${path}.${found.file.sha256.slice(0, 16)}.part`;
  out.size = readFileSync(path).length;
  writeFileSync(part, readFileSync(path).subarray(0, 1000));
  const seen = [];
  await download(found.file, folder, { onProgress: (done) => seen.push(done) });
  out.resumed = seen[0] > 1000 && readFileSync(path).length === out.size;
  out.refused = [];
  writeFileSync(part, "!".repeat(1000));
  for (const [file, fileKeys] of [
    [found.file, []], [{ ...found.file, size: 5 }, []], [found.file, [otherKey]],
    [{ ...found.file, signature: null }, [fileKey]], [{ ...found.file, name: ".." }, []],
  ]) {
    const refused = download(file, folder, { fileKeys }).then(() => "kept", (error) => error.code);
    out.refused.push(await refused);
  }
  out.left = existsSync(part);
}
const foreign = verifyUpdate("a.b.c", { publicKeys: keys, nonce: "n", body: "" });
out.foreign = await foreign.catch((error) => error.code);
console.log(JSON.stringify(out));
"""


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    with running(tmp_path_factory.mktemp("server"), **NO_LIMITS) as server, closing(Vendor(server)) as vendor:
        yield vendor


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_program_updates_from_1_to_2_and_is_held_back(vendor: Vendor, tmp_path: Path) -> None:
    path = vendor.sell()
    for version in ("1.0", "2.0"):
        publish(vendor, version)

    def run(**ask: Any) -> Any:
        given = {
            "url": str(vendor._client.base_url),
            "keys": [vendor.public_key],
            "folder": str(tmp_path),
            "fileKey": MINISIGN_KEY,
            "otherKey": OTHER_KEY,
            "ask": ask,
        }
        command = ["node", "--input-type=module", "-e", SCRIPT, str(UPDATES), json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run() == {
        "code": "update_available",
        "codes": ["update_available"],
        "version": "2.0",
        "size": len(CONTENT) + 3,
        "resumed": True,
        "refused": ["sha256", "size", "file_signature", "file_signature", "name"],
        "left": False,
        "foreign": "header",
    }
    assert run(appVersion="2.0")["code"] == "up_to_date"
    vendor.call("PATCH", path, expires_at="2026-01-01T00:00:00Z")
    assert run()["codes"] == ["newer_not_covered", "expired"]
    pinned = [vendor.public_key]
    vendor.change_signing_key(rotate_key(now=datetime.now(UTC)))
    wait_until(lambda: vendor.public_key not in pinned, "the server signs with the new key")
    assert run(publicKeys=pinned)["code"] == "newer_not_covered", "the older key has signed the newer one"
