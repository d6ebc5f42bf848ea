"""keywright-client: what support asks a customer to run."""

from __future__ import annotations

import argparse
import json
import sys
import time

from ._device import NAMED_BY
from .client import Keywright
from .errors import StorageError, VerificationError
from .verify import decode, key_id, unarmour, verify


def main(arguments: list[str] | None = None) -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(prog="keywright-client", description=__doc__)
    parser.add_argument("command", choices=("fingerprint", "check", "explain"))
    parser.add_argument("file", nargs="?", help="explain: a license file, or a signed answer")
    parser.add_argument("--url", default="http://localhost")
    parser.add_argument("--product")
    parser.add_argument("--public-key", action="append", default=[])
    parser.add_argument("--folder", help="where the program keeps its license, if not in the usual place")
    parser.add_argument("--named-by", choices=NAMED_BY, default="machine", help="as the program says")
    args = parser.parse_args(arguments)
    try:
        _ = [key_id(key) for key in args.public_key]
        if args.command == "explain":
            return _explain(args.file, args.public_key, args.product)
        options = {"product": args.product, "folder": args.folder, "named_by": args.named_by}
        program = Keywright(args.url, public_keys=args.public_key, **options)
        if args.command == "fingerprint":
            print(program.fingerprint)
            return 0
        print(json.dumps((status := program.check())._asdict(), indent=2, default=str))
        return 0 if status.valid else 1
    except (OSError, ValueError, StorageError) as wrong:
        parser.error(str(wrong))


def _explain(file: str | None, public_keys: list[str], product: str | None) -> int:
    """Print what a file says and whether it is good; without a public key, only what it says."""
    with open(file, encoding="utf-8", errors="replace") if file else sys.stdin as source:
        text = source.read(100_000)
    try:
        for part in unarmour(text).split(".")[:2]:
            print(json.dumps(json.loads(decode(part)), indent=2, ensure_ascii=False))
        if public_keys:
            verify(text, public_keys=public_keys, product=product, now=time.time())
        print("It is good." if public_keys else "Not verified: name the program's key with --public-key.")
        return 0
    except VerificationError as error:
        print(f"It is NOT good ({error.code}). {error}")
    except (ValueError, RecursionError):
        print("It cannot be read: it is no license file, or damaged.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
