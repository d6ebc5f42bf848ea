"""A program that Velopack has installed: it checks for an update, downloads it, and prints what it has."""

import json
import sys
from pathlib import Path

import velopack  # type: ignore[import-not-found]

given = json.loads(sys.argv[1])
folder = Path(given["folder"])
packages, manifest, updater = folder / "packages", folder / "sq.version", folder / "update"
packages.mkdir(parents=True, exist_ok=True)
updater.touch()
manifest.write_text(
    '<package xmlns="http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd"><metadata><id>Paint</id>'
    f"<version>{given['version']}</version><title>Paint</title><channel>linux</channel>"
    "<mainExe>Paint</mainExe><os>linux</os><rid>linux-x64</rid></metadata></package>"
)
locator = velopack.VelopackLocatorConfig(folder, updater, packages, manifest, folder, True)
manager = velopack.UpdateManager(given["url"], None, locator)
out: dict[str, object] = {}
try:
    found = manager.check_for_updates()
    out["version"] = None if found is None else found.TargetFullRelease.Version
    if found is not None:
        manager.download_updates(found)
except RuntimeError as error:
    out["error"] = str(error).splitlines()[0]
out["packages"] = {one.name: one.read_text() for one in packages.glob("*.nupkg")}
print(json.dumps(out))
