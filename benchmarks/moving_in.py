"""Measure the time, processor time and memory of ``keywright import lmfwc`` or ``edd``.

python -m benchmarks.moving_in [lmfwc|edd [LICENSES [ACTIVATIONS [DATABASE_URL]]]]
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

from tests.cli import test_imports_edd as edd
from tests.shop import DEFUSE, SECRET, a_row, an_activation_row, columns_of, quote

#: mysqldump begins a new statement after a certain size, which is about this many rows.
_ROWS_PER_STATEMENT = 2_000
_AGENT = "PhotoDesk/4.2.1 (Windows NT 10.0; Win64; x64)"


Rows = Iterable[dict[str, str | int | None]]


def write(path: Path, source: str, licenses: int, activations: int) -> None:
    """Write the dump of a shop with this many licenses and activations."""
    tables = _of_edd if source == "edd" else _of_lmfwc
    with path.open("w", encoding="utf-8") as file:
        file.write("-- MySQL dump 10.13\n")
        for table, columns, rows in tables(licenses, activations):
            file.writelines(_table(table, columns, rows))
        file.write("-- Dump completed\n")


def _of_lmfwc(licenses: int, activations: int) -> Iterator[tuple[str, list[str], Rows]]:
    each = -(-activations // licenses)
    numbers = range(1, licenses + 1)
    table = "lmfwc_activations"
    yield table, columns_of(table), _activations(licenses, activations)
    yield "lmfwc_licenses", columns_of("lmfwc_licenses"), (_license(number, each) for number in numbers)


def _of_edd(licenses: int, activations: int) -> Iterator[tuple[str, list[str], Rows]]:
    """Half as many customers as licenses, twenty products, and activations as sites."""
    people, products = max(1, licenses // 2), range(20)
    rows: dict[str, Rows] = {
        "edd_customers": (
            {"id": n, "email": f"c{n}@example.com", "name": f"C {n}"} for n in range(1, people + 1)
        ),
        "posts": ({"ID": 4711 + n, "post_title": f"P {n}", "post_type": "download"} for n in products),
        "postmeta": ({"post_id": 4711 + n, "meta_key": "_edd_sl_limit", "meta_value": 5} for n in products),
        "edd_licenses": (
            edd.a_license(n, download_id=4711 + n % 20, customer_id=n % people + 1)
            for n in range(1, licenses + 1)
        ),
        "edd_license_activations": (
            edd.a_site(n, n % licenses + 1, f"site{n}.example.com/shop/") for n in range(1, activations + 1)
        ),
    }
    yield from ((name, edd.COLUMNS[name].split(), some) for name, some in rows.items())


def _license(number: int, each: int) -> dict[str, str | int | None]:
    key = f"STD-{number:08d}-PL3MX-9RT2V-HW80Z"
    more = {"order_id": number + 1000, "product_id": number % 50, "user_id": number % 40_000}
    return a_row(number, key, times_activated=each, times_activated_max=each + 2, **more)


def _activations(licenses: int, activations: int) -> Iterator[dict[str, str | int | None]]:
    for number in range(activations):
        label = f"PC {number % 1000}"
        yield an_activation_row(number + 1, number % licenses + 1, label=label, user_agent=_AGENT)


def _table(table: str, columns: list[str], rows: Rows) -> Iterator[str]:
    yield f"CREATE TABLE `wp_{table}` (\n" + ",\n".join(f"  `{one}` text" for one in columns) + ");\n"
    iterator = iter(rows)
    while some := list(islice(iterator, _ROWS_PER_STATEMENT)):
        values = ("(" + ",".join(quote(row.get(one)) for one in columns) + ")" for row in some)
        yield f"INSERT INTO `wp_{table}` VALUES {','.join(values)};\n"  # noqa: S608


def main() -> None:
    """Write a dump, import it twice, and print the figures."""
    source = sys.argv[1] if len(sys.argv) > 1 else "lmfwc"
    usual = (20_000, 30_000) if source == "edd" else (100_000, 300_000)
    licenses, activations = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else usual
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.sql"
        write(dump, source, licenses, activations)
        print(f"{licenses:,} licenses, {activations:,} activations, {dump.stat().st_size / 1e6:,.0f} MB")
        keywright = str(Path(sys.executable).with_name("keywright"))
        secrets = [] if source == "edd" else ["--defuse", str(DEFUSE), "--secret", str(SECRET)]
        command = [keywright, "import", source, str(dump), *secrets]
        place = ["--data-dir", f"{folder}/data"]
        place += ["--database-url", sys.argv[4]] if len(sys.argv) > 4 else []
        subprocess.run([keywright, "init", *place], check=True, stdout=subprocess.DEVNULL)
        before = 0.0
        for what, options in (("dry run", ["--dry-run"]), ("first", []), ("again", [])):
            began = monotonic()
            subprocess.run([*command, *options, *place], check=True, stdout=subprocess.DEVNULL)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor, before = used.ru_utime + used.ru_stime - before, used.ru_utime + used.ru_stime
            print(
                f"{what}: {monotonic() - began:.1f} s, processor time {processor:.1f} s; "
                f"peak memory so far {used.ru_maxrss / 1024:.0f} MB",
                flush=True,
            )
        subprocess.run([keywright, "doctor", *place], check=True, env=os.environ)


if __name__ == "__main__":
    main()
