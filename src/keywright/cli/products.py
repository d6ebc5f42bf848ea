"""``keywright product …``"""

from keywright.cli.crud import Crud, Texts
from keywright.provisioning.products import PRODUCT

_TEXTS = Texts(
    create=(
        "--name Paint --code paint",
        "--name Paint --id 17 --feature layers=Layers --feature export",
    ),
    list=("",),
    update=("--url https://example.com/paint",),
    delete="Delete a product that no license and no policy names.",
)
app = Crud(PRODUCT, _TEXTS, columns=("id", "code", "name", "url", "features")).app
