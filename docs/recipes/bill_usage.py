"""Bill a closed period of usage with Stripe, with the standard library alone.

python3 bill_usage.py meter-event < body
python3 bill_usage.py invoice-item < body

The body is that of a delivery of usage.period_closed that webhook.py has verified. TOKEN is an API key of
Keywright that may read, STRIPE_KEY one of Stripe's. The customer's external_id in Keywright is their ID in
Stripe (cus_…). What was billed is remembered in billed.db: a delivery that comes again bills nothing.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlencode
from urllib.request import Request, urlopen

KEYWRIGHT = os.environ.get("KEYWRIGHT", "http://127.0.0.1:8000")
STRIPE = os.environ.get("STRIPE", "https://api.stripe.com")
#: For each meter: what one above the limit costs, in cents.
CENTS = {"exports": 5}


def meter_event(name: str, customer: str, usage: dict) -> None:
    """Report all that was used to the meter of Stripe: its price says what that costs."""
    fields = {
        "event_name": usage["meter"],
        "identifier": name,
        # The last second of the period, at most 35 days ago.
        "timestamp": seconds(usage["period_end"]) - 1,
        "payload[stripe_customer_id]": customer,
        "payload[value]": usage["used"],
    }
    call_stripe("/v1/billing/meter_events", fields, name)


def invoice_item(name: str, customer: str, usage: dict) -> None:
    """Put what was used above the limit on the customer's next invoice."""
    if not usage["overage"]:
        return
    fields = {
        "customer": customer,
        "currency": "eur",
        "amount": usage["overage"] * CENTS[usage["meter"]],
        "description": f"{usage['overage']:,} {usage['meter']} above {usage['limit']:,}",
        "period[start]": seconds(usage["period_start"]),
        "period[end]": seconds(usage["period_end"]),
    }
    call_stripe("/v1/invoiceitems", fields, name)


def call_stripe(path: str, fields: dict, key: str) -> None:
    """Raises HTTPError. A call that is repeated within a day is done once: its key is the same."""
    headers = {"Authorization": f"Bearer {os.environ['STRIPE_KEY']}", "Idempotency-Key": key}
    urlopen(Request(STRIPE + path, urlencode(fields).encode(), headers), timeout=30).close()


def find_customer(number: int) -> str:
    """The customer's ID in Stripe."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    with urlopen(Request(f"{KEYWRIGHT}/v3/customers/{number}", headers=headers), timeout=30) as answer:
        return json.load(answer)["external_id"]


def seconds(time: str) -> int:
    """The time in seconds since 1970."""
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())


def bill(delivery: dict, how: Callable[[str, str, dict], None]) -> None:
    """Bill the period once, however often the delivery comes."""
    if delivery["type"] != "usage.period_closed":
        return
    license_id, usage = delivery["data"]["license_id"], delivery["data"]["details"]
    name = f"kw-{license_id}-{usage['meter']}-{seconds(usage['period_start'])}"
    with sqlite3.connect("billed.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS billed (name TEXT PRIMARY KEY)")
        # Forgotten again where the call fails: the next attempt of the delivery bills it.
        if db.execute("INSERT OR IGNORE INTO billed VALUES (?)", (name,)).rowcount:
            how(name, find_customer(usage["customer_id"]), usage)


if __name__ == "__main__":
    bill(json.load(sys.stdin), {"meter-event": meter_event, "invoice-item": invoice_item}[sys.argv[1]])
