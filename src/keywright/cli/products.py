"""``keywright product …``"""

from typing import Annotated

import msgspec
import typer

from keywright.cli import output
from keywright.cli.crud import Crud, Texts
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, command, with_installation
from keywright.core.parsing import parse_integer
from keywright.provisioning.products import PRODUCT
from keywright.search.statistics import MAX_VERSION_DAYS, ListVersions, VersionsInUse

_TEXTS = Texts(
    create=(
        "--name Paint --code paint",
        "--name Paint --id 17 --feature layers=Layers --feature export",
    ),
    list=("",),
    update=("--url https://example.com/paint",),
    delete="Delete a product that has no licenses and no policies.",
)
app = Crud(PRODUCT, _TEXTS, columns=("id", "code", "name", "url", "features")).app


@command(app, "keywright product versions 17", "keywright product versions 17 --days 90 --json")
@with_installation
def versions(
    here: Installation,
    id: Annotated[int, typer.Argument(metavar="ID", parser=parse_integer, help="The product's ID.")],
    *,
    days: Annotated[
        int,
        typer.Option(min=1, max=MAX_VERSION_DAYS, help="With --json: include history for this many days."),
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """List the versions in use: the active devices seen within 30 days, by version and platform."""
    found: VersionsInUse = here.ask(ListVersions(product_id=id, now=here.now, days=days))
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    columns = ("version", "platform", "devices", "seen within a day", "within 7 days")
    output.print_table(columns, [msgspec.structs.astuple(one) for one in found.versions])
