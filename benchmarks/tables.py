"""Measure the time, processor time and memory of ``keywright import csv`` and ``export``.

python -m benchmarks.tables [LINES [DATABASE_URL]]
"""

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

_COLUMNS = "license_key,status,times_activated_max,expires_at,product_id,order_id,customer_id,created_at"


def write(path: Path, lines: int) -> None:
    """Write a table with this many licenses."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS.split(","))
        for number in range(lines):
            day = f"{number % 28 + 1:02d} 10:{number % 60:02d}:00"
            key = f"STD-{number:08d}-PL3MX-9RT2V-HW80Z"
            more = (number % 50 + 1, number + 1000, number % 40_000 + 1)
            writer.writerow((key, "active", 3, f"2031-{number % 12 + 1:02d}-{day}", *more, f"2025-06-{day}"))


def time_command(what: str, command: list[str]) -> None:
    """Run a command, and print its time, processor time and memory."""
    began = monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    print(
        f"{what}: {monotonic() - began:.1f} s, processor time {used.ru_utime + used.ru_stime:.1f} s, "
        f"peak memory {used.ru_maxrss / 1024:.0f} MB, status {process.returncode}",
        flush=True,
    )


def main() -> None:
    """Write a table, import it twice, export it, and print the figures."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    keywright = str(Path(sys.executable).with_name("keywright"))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "licenses.csv"
        write(table, lines)
        print(f"{lines:,} lines, {table.stat().st_size / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}")
        place = ["--data-dir", f"{folder}/data"]
        place += ["--database-url", sys.argv[2]] if len(sys.argv) > 2 else []
        subprocess.run([keywright, "init", *place], check=True, stdout=subprocess.DEVNULL)
        bring = [keywright, "import", "csv", str(table), *place]
        time_command("dry run", [*bring, "--dry-run"])
        time_command("first", bring)
        time_command("again", bring)
        time_command("export", [keywright, "export", "licenses", "-o", f"{folder}/exported.csv", *place])


if __name__ == "__main__":
    main()
