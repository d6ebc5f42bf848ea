"""Measure ``keywright import lmfwc``: how long it takes, how much processor time and memory.

python -m benchmarks.moving_in [LICENSES [ACTIVATIONS_EACH [DATABASE_URL]]]
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import monotonic

from tests.shop import DEFUSE, SECRET, a_row, an_activation_row, columns_of, quote

#: mysqldump begins a new statement after about so many bytes.
_ROWS_PER_STATEMENT = 2_000
_AGENT = "PhotoDesk/4.2.1 (Windows NT 10.0; Win64; x64)"


def write(path: Path, licenses: int, each: int) -> None:
    """Write the dump of a shop with this many licenses, and this many activations of each."""
    with path.open("w", encoding="utf-8") as file:
        file.write("-- MySQL dump 10.13\n")
        file.writelines(_table("lmfwc_activations", _activations(licenses, each)))
        file.writelines(
            _table("lmfwc_licenses", (_license(number, each) for number in range(1, licenses + 1)))
        )
        file.write("-- Dump completed\n")


def _license(number: int, each: int) -> dict[str, str | int | None]:
    key = f"STD-{number:08d}-PL3MX-9RT2V-HW80Z"
    more = {"order_id": number + 1000, "product_id": number % 50, "user_id": number % 40_000}
    return a_row(number, key, times_activated=each, times_activated_max=each + 2, **more)


def _activations(licenses: int, each: int) -> Iterator[dict[str, str | int | None]]:
    for number in range(licenses * each):
        label = f"PC {number % 1000}"
        yield an_activation_row(number + 1, number % licenses + 1, label=label, user_agent=_AGENT)


def _table(table: str, rows: Iterable[dict[str, str | int | None]]) -> Iterator[str]:
    columns = columns_of(table)
    yield f"CREATE TABLE `wp_{table}` (\n" + ",\n".join(f"  `{one}` text" for one in columns) + ");\n"
    iterator = iter(rows)
    while some := list(islice(iterator, _ROWS_PER_STATEMENT)):
        values = ("(" + ",".join(quote(row.get(one)) for one in columns) + ")" for row in some)
        yield f"INSERT INTO `wp_{table}` VALUES {','.join(values)};\n"  # noqa: S608


def main() -> None:
    """Write a dump, import it twice, and print the figures."""
    licenses, each = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (100_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.sql"
        write(dump, licenses, each)
        print(f"{licenses:,} licenses, {licenses * each:,} activations, {dump.stat().st_size / 1e6:,.0f} MB")
        keywright = str(Path(sys.executable).with_name("keywright"))
        secrets = ["--defuse", str(DEFUSE), "--secret", str(SECRET)]
        command = [keywright, "import", "lmfwc", str(dump), *secrets]
        place = ["--data-dir", f"{folder}/data"]
        place += ["--database-url", sys.argv[3]] if len(sys.argv) > 3 else []
        subprocess.run([keywright, "init", *place], check=True, stdout=subprocess.DEVNULL)
        before = 0.0
        for what, options in (("dry run", ["--dry-run"]), ("first", []), ("again", [])):
            began = monotonic()
            subprocess.run([*command, *options, *place], check=True, stdout=subprocess.DEVNULL)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor, before = used.ru_utime + used.ru_stime - before, used.ru_utime + used.ru_stime
            print(
                f"{what}: {monotonic() - began:.1f} s, {processor:.1f} s of them on a processor; "
                f"so far at most {used.ru_maxrss / 1024:.0f} MB of memory",
                flush=True,
            )
        subprocess.run([keywright, "doctor", *place], check=True, env=os.environ)


if __name__ == "__main__":
    main()
