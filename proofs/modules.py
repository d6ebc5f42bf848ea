"""The modules that R18 is about, and the tests that answer for each.

The same tests show that every branch is run (proofs/coverage.py), and that every fault is noticed
(proofs/mutation.py); so they are quick, and run inside one process.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "keywright"

_OF_ERRORS = ("tests/unit/test_errors.py",)

#: By module, files of tests.
TESTS = {
    "errors.root": _OF_ERRORS,
    "errors.refusals": _OF_ERRORS,
    "errors.calls": _OF_ERRORS,
    "errors.faults": _OF_ERRORS,
    "model": ("tests/unit/test_model.py",),
    "rules": ("tests/unit/test_rules.py", "tests/unit/test_rules_over_time.py"),
    "keys": ("tests/unit/test_keys.py",),
    "licensing": ("tests/storage/test_batches.py", "tests/storage/test_batches_together.py"),
    "desk": (
        "tests/concurrency/test_desk.py",
        "tests/concurrency/test_desk_in_trouble.py",
        "tests/concurrency/test_desk_patience.py",
        "tests/concurrency/test_desk_retried.py",
    ),
}
#: For pytest: on the database that is there at once.
ON_SQLITE = ("-k", "not postgresql and not repeatable and not serializable")


def source_of(module: str) -> Path:
    """The file of a module, by its name below Keywright's."""
    return PACKAGE / f"{module.replace('.', '/')}.py"
