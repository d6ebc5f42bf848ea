"""The modules that R18 is about, and the tests that answer for each.

The same tests show that every branch is run (proofs/coverage.py), and that every fault is noticed
(proofs/mutation.py); so they are quick, and run inside one process.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "keywright"

_OF_ERRORS = ("tests/unit/test_errors.py", "tests/unit/test_v3_problems.py")
_OF_NOUNS = ("tests/unit/test_model.py",)
_OF_SITES = ("tests/unit/test_sites.py",)
_OF_RULES = ("tests/unit/test_rules.py", "tests/unit/test_rules_over_time.py", *_OF_SITES)
_OF_TERMS = ("tests/unit/test_terms.py",)
_OF_CATALOG = ("tests/unit/test_catalog_rules.py",)
_OF_STATES = ("tests/unit/test_license_states.py",)
_OF_DEVICES = ("tests/unit/test_devices.py", "tests/unit/test_terms_over_time.py", *_OF_SITES)
_OF_LEASES = ("tests/unit/test_leases.py", "tests/unit/test_terms_over_time.py")
_OF_USAGE = ("tests/unit/test_usage.py",)
_OF_VALIDATION = ("tests/unit/test_validation.py",)
_OF_THE_DESK = (
    "tests/concurrency/test_desk.py",
    "tests/concurrency/test_desk_in_trouble.py",
    "tests/concurrency/test_desk_patience.py",
    "tests/concurrency/test_desk_retried.py",
)
_OF_TERMS_GIVEN = ("tests/unit/test_terms_given.py",)
_OF_KEYS = ("tests/unit/test_keys.py",)
_OF_HANDLERS = ("tests/storage/test_batches.py", "tests/storage/test_batches_together.py")

#: By module, files of tests.
TESTS = {
    "core.errors.root": _OF_ERRORS,
    "core.errors.management": _OF_ERRORS,
    "core.errors.licensing": _OF_ERRORS,
    "core.errors.provisioning": _OF_ERRORS,
    "core.errors.terms": _OF_ERRORS,
    "core.errors.calls": _OF_ERRORS,
    "core.errors.faults": _OF_ERRORS,
    "core.errors.requests": _OF_ERRORS,
    "events.model": _OF_NOUNS,
    "identity.model": _OF_NOUNS,
    "jobs.model": _OF_NOUNS,
    "licensing.activations.model": _OF_NOUNS,
    "licensing.licenses.model": (
        *_OF_NOUNS,
        "tests/unit/test_fields.py",
        "tests/unit/test_orders.py",
        *_OF_SITES,
    ),
    "licensing.activations.rules": _OF_RULES,
    "licensing.activations.devices": _OF_DEVICES,
    "licensing.activations.sites": _OF_SITES,
    "licensing.licenses.rules": (*_OF_RULES, *_OF_STATES, *_OF_CATALOG),
    "licensing.leases.model": (*_OF_NOUNS, *_OF_LEASES),
    "licensing.leases.rules": _OF_LEASES,
    "licensing.usage.model": (*_OF_NOUNS, *_OF_USAGE),
    "licensing.usage.rules": _OF_USAGE,
    "licensing.updates.rules": (
        *_OF_NOUNS,
        "tests/unit/test_update_verdicts.py",
        "tests/unit/test_update_gate.py",
    ),
    "licensing.updates.notices": (*_OF_NOUNS, "tests/unit/test_notices.py"),
    "licensing.validation": (*_OF_NOUNS, *_OF_VALIDATION),
    "licensing.terms.model": (*_OF_NOUNS, *_OF_TERMS, "tests/unit/test_terms_in_words.py"),
    "licensing.terms.rules": (*_OF_TERMS, *_OF_CATALOG, *_OF_SITES),
    "provisioning.products": (*_OF_CATALOG, "tests/unit/test_nouns.py"),
    "provisioning.customers": (*_OF_CATALOG, "tests/unit/test_nouns.py"),
    "core.command": (*_OF_NOUNS, *_OF_HANDLERS),
    "core.crypto": _OF_KEYS,
    "licensing.licenses.keys": _OF_KEYS,
    "provisioning.policies.rules": (*_OF_KEYS, *_OF_TERMS_GIVEN),
    "provisioning.trials": (*_OF_NOUNS, *_OF_TERMS_GIVEN),
    "licensing.activations.handlers": (
        *_OF_HANDLERS,
        "tests/storage/test_managing.py",
        "tests/storage/test_removals.py",
    ),
    "licensing.licenses.handlers": (
        *_OF_HANDLERS,
        "tests/storage/test_catalog.py",
        "tests/storage/test_accounts.py",
        "tests/storage/test_jobs.py",
        "tests/storage/test_selling.py",
        "tests/storage/test_later_purchases.py",
    ),
    "engine.desk": _OF_THE_DESK,
    "engine.lane": _OF_THE_DESK,
}
#: For pytest: on the database that is there at once.
ON_SQLITE = ("-k", "not postgresql and not repeatable and not serializable")


def source_of(module: str) -> Path:
    """The file of a module, by its name below Keywright's."""
    return PACKAGE / f"{module.replace('.', '/')}.py"
