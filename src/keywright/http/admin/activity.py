"""Figures and charts of the last days, of all licenses or of those of a product."""

from typing import Any

from keywright.db import ReadTransaction
from keywright.http.admin.charts import Series, build_chart, find_change
from keywright.http.pages.inputs import parse_number
from keywright.http.pages.languages import _
from keywright.http.pages.request import PageRequest
from keywright.search.daily import list_days
from keywright.search.projector import REFUSED, VALIDATED

#: The numbers of days that can be chosen.
RANGES = (7, 30, 90, 365)
_DEFAULT = 30
_NEW, _ACTIVATED = ("license.created", "license.imported"), "license.activated"


def read_activity(tx: ReadTransaction, request: PageRequest, product_id: int | None = None) -> dict[str, Any]:
    """The amounts of the days that the query asks for (``days=90``), and their change against those before
    them.
    """
    asked = parse_number(request.query.get("days", ""))
    days = asked if asked in RANGES else _DEFAULT
    today, names = request.now.date(), (*_NEW, _ACTIVATED, VALIDATED, REFUSED)
    found = list_days(tx, names, last=today, days=2 * days, product_id=product_id)
    new = [sum(amounts) for amounts in zip(*(found[name] for name in _NEW), strict=True)]
    both = {
        "new": new,
        "activated": found[_ACTIVATED],
        "validated": found[VALIDATED],
        "refused": found[REFUSED],
    }
    return {
        "days": days,
        "ranges": RANGES,
        "totals": {name: sum(amounts[days:]) for name, amounts in both.items()},
        "trends": {name: find_change(amounts) for name, amounts in both.items()},
        "activations": build_chart(
            [
                Series(_("Activations"), found[_ACTIVATED][days:]),
                Series(_("Refused at the limit"), found[REFUSED][days:]),
            ],
            today,
        ),
        "validations": build_chart([Series(_("Validations"), found[VALIDATED][days:])], today),
    }
