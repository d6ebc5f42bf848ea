"""``keywright signing-key …``"""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, IsSure, WrongUsage, command, with_installation

if TYPE_CHECKING:
    from keywright.signing.model import LoadedKeys, SigningKey

app = typer.Typer(no_args_is_help=True)

#: A thumbprint (RFC 7638: base64url of a SHA-256) that begins with a dash.
_LIKE_AN_OPTION = re.compile(r"-[A-Za-z0-9_-]{42}")

_Kid = Annotated[
    str, typer.Argument(metavar="KID", help="The key's ID; `keywright signing-key show` lists it.")
]
_Language = Annotated[
    str | None,
    typer.Option(
        "--language", metavar="NAME", help="Only this language: Python, JavaScript, PHP, Go, C or C#."
    ),
]


@command(app, "keywright signing-key show")
@with_installation
def show(here: Installation, *, as_json: AsJson = False) -> None:
    """List the signing keys, newest first.

    The newest key signs. An older key verifies until everything that it has signed has expired.
    """
    from keywright.signing.rules import issuer_of

    loaded = _load(here)
    rows = [(one, _state(one, loaded, here)) for one in loaded.keys]
    if as_json:
        keys = [_json(one) | {"state": state} for one, state in rows]
        output.print_json({"issuer": issuer_of(loaded.oldest.kid), "keys": keys})
        return
    output.print_fields([("issuer", issuer_of(loaded.oldest.kid))])
    columns = ("kid", "public key", "created at", "signed until", "state")
    output.print_table(columns, [_row(one, state) for one, state in rows])


@command(app, "keywright signing-key rotate")
@with_installation
def rotate(here: Installation) -> None:
    """Make a new signing key, which signs from the next answer on.

    Programs that know an older key learn the new one from a key set that the older key signs.
    """
    from keywright.signing.commands import RotateSigningKey

    made = here.change(RotateSigningKey(context=here.context)).newest
    output.print_line(f"From now on, the key {made.kid} signs answers.")
    output.print_line(f"Its public half, for programs that you ship from now on:\n  {made.public_key}")


@command(app, "keywright signing-key export-public", "keywright signing-key export-public --language Python")
@with_installation
def export_public(here: Installation, *, language: _Language = None, as_json: AsJson = False) -> None:
    """Print the current public key, and the line of code that pins it in a program, in six languages."""
    from keywright.signing.explanation import lines_to_paste

    key = _load(here).newest
    lines = lines_to_paste([key.public_key])
    if as_json:
        output.print_json(_json(key) | {"lines": lines})
    elif language is not None:
        known = {name.lower(): line for name, line in lines.items()}
        if language.lower() not in known:
            raise WrongUsage(f"there is no code for {language}; choose one of {', '.join(lines)}")
        output.print_line(known[language.lower()])
    else:
        output.print_fields([("public key", key.public_key), ("kid", key.kid)])
        for name, line in lines.items():
            output.print_line(f"\n{name}:\n  {line}")


class _TakesDashes(TyperCommand):
    """A command whose argument may begin with a dash, as one key ID in 64 does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse key IDs as arguments, even if they look like options."""
        kids = [one for one in args if _LIKE_AN_OPTION.fullmatch(one)]
        others = [one for one in args if one not in kids and one != "--"]
        return super().parse_args(ctx, [*others, "--", *kids] if kids else args)


@command(app, "keywright signing-key withdraw kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", cls=_TakesDashes)
@with_installation
def withdraw(here: Installation, kid: _Kid, *, is_sure: IsSure = False) -> None:
    """Withdraw an older signing key for good, for example a stolen one.

    Rotate first: the key that signs cannot be withdrawn. Programs that know only the withdrawn key stop
    working; those that have learned a newer key refuse everything that the withdrawn one has signed.
    """
    from keywright.signing.commands import WithdrawSigningKey

    key = next((one for one in _load(here).keys if one.kid == kid), None)
    if key is not None and not is_sure:
        output.print_line(
            f"Programs shipped since {output.format_time(key.created_at)} (UTC) that know only this key "
            "will refuse every answer and every license file. Ship a new version first."
        )
        typer.confirm("Withdraw the key?", abort=True, err=True)
    here.change(WithdrawSigningKey(context=here.context, kid=kid))
    output.print_line(
        "The key is withdrawn, and its private half is deleted. Older backups still contain it."
    )


def _load(here: Installation) -> "LoadedKeys":
    """Load the keys; make the first one if there is none."""
    from keywright.signing.commands import LoadKeys, MakeFirstKey

    loaded: LoadedKeys | None = here.ask(LoadKeys())
    return loaded or here.change(MakeFirstKey(context=here.context))


def _state(key: "SigningKey", loaded: "LoadedKeys", here: Installation) -> str:
    from keywright.signing.rules import published

    if key.withdrawn_at is not None:
        return "withdrawn"
    if key is loaded.newest:
        return "signs"
    return "verifies" if key in published(loaded.keys, here.now) else "ended"


def _row(key: "SigningKey", state: str) -> tuple[object, ...]:
    times = map(output.format_time, (key.created_at, key.signed_until))
    return (key.kid, key.public_key, *times, state)


def _json(key: "SigningKey") -> output.Json:
    return {
        "kid": key.kid,
        "public_key": key.public_key,
        "created_at": output.format_time(key.created_at),
        "signed_until": output.format_time(key.signed_until),
        "withdrawn_at": output.format_time(key.withdrawn_at),
    }
