"""``keywright generator …``"""

from typing import Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import (
    AsJson,
    CustomerId,
    NewStatus,
    OrderId,
    ProductId,
    command,
    with_installation,
    with_installation_made,
)
from keywright.core import parsing
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.licenses.model import Status
from keywright.provisioning.generators.commands import (
    CreateGenerator,
    DeleteGenerator,
    GenerateLicenses,
    ListGenerators,
)
from keywright.provisioning.generators.model import Generator

app = typer.Typer(name="generator", no_args_is_help=True, help="Make many licenses, with keys from a recipe.")

_MAX_AMOUNT = 10_000
_MAX_TEXT = 255

Id = Annotated[int, typer.Argument(metavar="ID", min=1, help="The generator's number.")]


def _text(text: str) -> str | None:
    found = parsing.parse_text(text, _MAX_TEXT)
    if found is not None and not found.isprintable():
        raise ValueError("must not contain control characters")
    return found


def _charset(text: str) -> str:
    if not _text(text) or " " in text:
        raise ValueError("must have at least one character, and no spaces")
    return text


def _end(text: str) -> str | None:
    # A key is trimmed wherever it comes in: one with a space at its end would never be found.
    if text != text.strip():
        raise ValueError("must not begin or end with a space")
    return _text(text)


_Name = Annotated[str, typer.Option(metavar="NAME", parser=parsing.parse_name, help="The generator's name.")]
_Charset = Annotated[
    str, typer.Option(metavar="TEXT", parser=_charset, help="The characters that keys are drawn from.")
]
_Chunks = Annotated[int, typer.Option(metavar="N", min=1, max=_MAX_TEXT, help="The number of groups.")]
_ChunkLength = Annotated[
    int, typer.Option(metavar="N", min=1, max=_MAX_TEXT, help="The number of characters in a group.")
]
_Separator = Annotated[
    str | None, typer.Option(metavar="TEXT", parser=_text, help="The text between groups.")
]
_Prefix = Annotated[str | None, typer.Option(metavar="TEXT", parser=_end, help="The beginning of every key.")]
_Suffix = Annotated[str | None, typer.Option(metavar="TEXT", parser=_end, help="The end of every key.")]
_Max = Annotated[
    int | None,
    typer.Option(
        "--max",
        metavar="N",
        parser=parsing.parse_limit,
        help="The number of places of its licenses. Without it: no limit.",
    ),
]
_ExpiresIn = Annotated[
    int | None,
    typer.Option(
        metavar="DAYS",
        parser=parsing.parse_days,
        help="How many days its licenses are good for, from their first activation.",
    ),
]
_Force = Annotated[
    bool, typer.Option("--force", help="Allow keys that could be guessed: under 64 random bits.")
]


@command(
    app,
    "keywright generator create --name Standard --max 3",
    "keywright generator create --name Trial --prefix TRIAL- --expires-in 30",
)
@with_installation_made
def create(
    here: Installation,
    *,
    name: _Name,
    charset: _Charset = UNAMBIGUOUS,
    chunks: _Chunks = 6,
    chunk_length: _ChunkLength = 5,
    separator: _Separator = "-",
    prefix: _Prefix = None,
    suffix: _Suffix = None,
    times_activated_max: _Max = None,
    expires_in: _ExpiresIn = None,
    is_weak_allowed: _Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a generator: a recipe for license keys.

    By default, its keys have 150 random bits, such as RT7KA-2M3WX-… with six groups.
    """
    generator: Generator = here.change(
        CreateGenerator(
            context=here.context,
            name=name,
            charset=charset,
            chunks=chunks,
            chunk_length=chunk_length,
            times_activated_max=times_activated_max,
            separator=separator,
            prefix=prefix,
            suffix=suffix,
            expires_in_days=expires_in,
            is_weak_allowed=is_weak_allowed,
        )
    )
    if as_json:
        output.print_json(output.generator_json(generator))
        return
    output.print_line(f"Generator {generator.id} is made. Ten licenses with it:")
    output.print_line(f"  keywright generator generate {generator.id} --amount 10")


@command(app, name="list")
@with_installation
def list_generators(here: Installation, as_json: AsJson = False) -> None:
    """List the generators, oldest first."""
    generators: tuple[Generator, ...] = here.ask(ListGenerators())
    if as_json:
        output.print_json_array(map(output.generator_json, generators))
        return
    columns = ("id", "name", "makes", "characters", "activations", "days")
    output.print_table(columns, [_row(one) for one in generators])


@command(
    app,
    "keywright generator generate 1 --amount 100 > keys.txt",
    "keywright generator generate 1 --amount 5 --status sold --order-id 1017 --json",
)
@with_installation
def generate(
    here: Installation,
    generator_id: Id,
    *,
    amount: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=_MAX_AMOUNT, help="The number of licenses, at most 10,000."),
    ],
    status: NewStatus = Status.ACTIVE,
    product_id: ProductId = None,
    order_id: OrderId = None,
    customer_id: CustomerId = None,
    as_json: AsJson = False,
) -> None:
    """Make licenses with a generator, all or none, and print their keys, one a line."""
    records: tuple[LicenseRecord, ...] = here.change(
        GenerateLicenses(
            context=here.context,
            generator_id=generator_id,
            amount=amount,
            status=status,
            order_id=order_id,
            product_id=product_id,
            customer_id=customer_id,
        )
    )
    if as_json:
        output.print_json_array(output.license_json(one.license) for one in records)
        return
    for one in records:
        print(one.license.key)


@command(app)
@with_installation
def delete(here: Installation, generator_id: Id) -> None:
    """Delete a generator; the licenses that it made stay."""
    here.change(DeleteGenerator(context=here.context, generator_id=generator_id))
    output.print_line(f"Generator {generator_id} is deleted. The licenses that it made stay.")


def _row(one: Generator) -> tuple[object, ...]:
    chunk = "X" * one.chunk_length
    shape = f"{one.prefix or ''}{(one.separator or '').join([chunk] * one.chunks)}{one.suffix or ''}"
    return (one.id, one.name, shape, one.charset, one.times_activated_max, one.expires_in_days)
