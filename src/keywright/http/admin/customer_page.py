"""The page of a customer: licenses, devices, and what happened to any of them."""

import re
from typing import Any

from keywright.core.errors import NoSuchAddress
from keywright.db import ReadTransaction
from keywright.delivery.mail.store import list_of_customer
from keywright.http.admin import event_views
from keywright.http.admin.texts import MAIL_STATES, MAIL_TEXTS
from keywright.http.admin.timeline import read_timeline
from keywright.http.pages.inputs import require_id
from keywright.http.pages.request import PageRequest
from keywright.licensing.activations.records import find_last_seen
from keywright.provisioning.customers import read_note
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import CUSTOMERS, names_of
from keywright.provisioning.store import customer_has_licenses as has_licenses
from keywright.search import license_pages
from keywright.search.filters import Search
from keywright.search.owned_store import Place, list_devices

#: How many of each are shown at once.
_LICENSES, _DEVICES, _MAILS = 10, 20, 10
_PLACE = re.compile(r"([0-9]{1,18})-([0-9a-f]{12})")


def read_customer(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    """The values of the page. Raises ``NoSuchAddress`` for a number that no customer and no license has."""
    number = require_id(request.path_params["id"])
    customer = CUSTOMERS.find(tx, number)
    if customer is None and not has_licenses(tx, number):
        raise NoSuchAddress
    licenses = license_pages.find_page(
        tx,
        Search(customer_id=number),
        cursor=request.query.get("cursor"),
        limit=_LICENSES,
        now=request.now,
    )
    devices, next_place = list_devices(
        tx, number, after=_parse_place(request.query.get("devices", "")), limit=_DEVICES
    )
    products = {one.product_id for one in licenses.licenses if one.product_id is not None}
    return {
        "number": number,
        "customer": customer,
        "note": "" if customer is None else read_note(customer),
        "shop_link": _shop_link(request, number),
        "has_portal": request.site.settings.portal,
        "licenses": licenses,
        "names": {"product": names_of(tx, NameKind.PRODUCT, products)},
        "devices": [(one, event_views.device_name(one)) for one in devices],
        "seen_at": find_last_seen(tx, devices),
        "more_devices": None if next_place is None else f"{next_place.license_id}-{next_place.token}",
        "mails": [] if customer is None else list_of_customer(tx, number, limit=_MAILS),
        "mail_texts": MAIL_TEXTS,
        "mail_states": MAIL_STATES,
        **read_timeline(tx, request, customer=str(number)),
    }


def _parse_place(text: str) -> Place | None:
    found = _PLACE.fullmatch(text)
    return None if found is None else Place(int(found[1]), found[2])


def _shop_link(request: PageRequest, number: int) -> str:
    template = request.site.settings.customer_link
    return "" if template is None else template.replace("{id}", str(number))
