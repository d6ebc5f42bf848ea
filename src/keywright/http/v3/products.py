"""Products."""

from keywright.http.v3.crud import Texts, crud_routes
from keywright.provisioning.products import PRODUCT

_TEXTS = Texts(
    create="Licenses and policies may name a product by its number before there is a product: giving its "
    "`id` here makes the product of that number.",
    list="The newest first. An API key for one product sees that one alone.",
    update="What is not sent stays. The code of a product that has licenses cannot be changed: programs may "
    "name the product by it.",
    delete="Only one that no license and no policy names.",
)

ROUTES = crud_routes(
    PRODUCT,
    _TEXTS,
    example={
        "name": "Paint",
        "code": "paint",
        "url": "https://example.com/paint",
        "features": [{"code": "layers", "name": "Layers"}],
    },
    change={"name": "Paint Pro"},
    refusals={
        "POST": ("already_exists",),
        "PATCH": ("already_exists", "still_in_use", "changed_meanwhile"),
        "DELETE": ("still_in_use", "changed_meanwhile"),
    },
)
