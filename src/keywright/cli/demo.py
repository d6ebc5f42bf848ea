"""``keywright serve --demo``: the sales of a made-up vendor, and a license to try."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import quote

from msgspec import structs

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import DemoKind
from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.core.command import Command, Context, Origin
from keywright.core.errors import LimitReached, Unavailable
from keywright.core.standard_webhooks import decode_secret
from keywright.db import Storage, run_read
from keywright.identity.api_keys import new_secrets
from keywright.identity.model import ApiKey, IssueApiKey, Permissions
from keywright.identity.store import list_api_keys
from keywright.licensing.activations.model import (
    Activate,
    Activation,
    Deactivate,
    FindLicenses,
    LicenseRecord,
)
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.licenses.model import License, LicenseFilter, LicenseSource, Status, UpdateLicense
from keywright.provisioning.policies.model import CreatePolicy, GenerateLicenses, Policy
from keywright.provisioning.policies.rules import terms_from_first_activation
from keywright.provisioning.products import NameKind, SaveName
from keywright.provisioning.shops.commands import AddConnection, ListConnections, OpenConnection
from keywright.provisioning.shops.model import ANY_PRODUCT, Connection, MappedProduct, OpenedConnection, Shop
from keywright.registry import open_executor
from keywright.search.statistics import ProjectEvents, SaveCounters

_API_KEY_NAME = _CONNECTION_NAME = "demo"
#: The ID of the first connection.
_CONNECTION_ID = 1
_PLACES = 3
# sed is everywhere, jq is not.
_KEEP_TOKEN = (
    "printf '%s\\n' \"$ANSWER\"",
    r"""TOKEN=$(printf '%s' "$ANSWER" | sed -n 's/.*"token": *"\([0-9a-f]*\)".*/\1/p')""",
)


@dataclass(frozen=True)
class Demo:
    """A license to try. The credentials are known only to the process that made them."""

    license_key: str
    credentials: str | None = None
    #: The secret that signs the sales of the made-up shop.
    shop_secret: str | None = None


def prepare(settings: Settings, kind: DemoKind) -> Demo | None:
    """Add an API key, a policy, a license and a connection to a database without licenses and API keys, and,
    for a full demo, the sales of a made-up vendor.

    In any other database, find the license that was added earlier; None if there is none.
    """
    # The server does not share its own storage.
    storage = open_installation(settings)
    try:
        here = Installation(storage, settings)
        first, api_keys = _first_license(here), run_read(storage, list_api_keys)
        if first is not None or api_keys:
            return _find(here, first, api_keys)
        demo = _make(here)
        if kind is DemoKind.FULL:
            fill(storage, here.now)
        return demo
    finally:
        storage.close()


def _find(here: Installation, first: LicenseRecord | None, api_keys: Sequence[ApiKey]) -> Demo | None:
    # Licenses of the demo have no mark, but this one names the demo's API key as its creator.
    ours = {one.id for one in api_keys if one.name == _API_KEY_NAME}
    if first is None or first.license.source != LicenseSource.GENERATOR:
        return None
    if first.license.created_by not in ours:
        return None
    return Demo(first.license.key, shop_secret=_find_shop_secret(here))


def _find_shop_secret(here: Installation) -> str | None:
    """Return the secret of the demo's connection; None if the connection was removed."""
    connections: list[Connection] = here.ask(ListConnections())
    ours = [one for one in connections if one.name == _CONNECTION_NAME and one.shop is Shop.GENERIC]
    if not ours or ours[0].id != _CONNECTION_ID:
        return None
    opened: OpenedConnection = here.ask(OpenConnection(connection_id=_CONNECTION_ID))
    return opened.secret


def print_calls(demo: Demo, api_url: str, curl: str) -> None:
    """Print shell commands that try the demo license over v2; each begins with ``curl``."""
    key = quote(demo.license_key, safe="")
    activate, deactivate, validate = (
        f"{api_url}/licenses/{call}/{key}" for call in ("activate", "deactivate", "validate")
    )
    output.print_heading(f"A license with three places to try:  {demo.license_key}")
    for what, *lines in (
        ("Activate it and keep the token from the answer:", f"ANSWER=$({curl} '{activate}')", *_KEEP_TOKEN),
        ("Validate it:", f"{curl} '{validate}'; echo"),
        ("Deactivate that place:", f'{curl} "{deactivate}?token=$TOKEN"; echo'),
        ("Reactivate it:", f'{curl} "{activate}?token=$TOKEN"; echo'),
    ):
        output.print_line("\n  ".join([f"\n{what}", *lines]))


def print_device_calls(demo: Demo, v3_url: str, curl: str) -> None:
    """Print the v3 calls of the client libraries: activate a device, and validate the license for it."""
    body = json.dumps({"license_key": demo.license_key, "fingerprint": "device-1"})
    output.print_line("\nOver v3, as the client libraries do it: with a device instead of a token:")
    for call in ("activate", "validate"):
        output.print_line(f"  {curl} '{v3_url}/{call}' -d '{body}'; echo")


def print_sale(demo: Demo, base_url: str) -> None:
    """Print the call with which a shop reports a sale. The shell signs it when it is pasted, because a
    signature is valid for five minutes.
    """
    if demo.shop_secret is None:
        return
    body = (
        """{"type":"order.paid","timestamp":"'$(date -u +%Y-%m-%dT%H:%M:%SZ)'","""
        """"data":{"order":"demo-'$AT'","""
        """"customer":{"email":"ada@example.com","name":"Ada"},"lines":[{"product":"pro","quantity":1}]}}"""
    )
    key = decode_secret(demo.shop_secret).hex()
    signature = f"openssl dgst -sha256 -mac HMAC -macopt hexkey:{key} -binary | openssl base64 -A"
    headers = (
        """-H "webhook-id: demo-$AT" -H "webhook-timestamp: $AT" -H "webhook-signature: v1,$SIGNATURE\""""
    )
    output.print_line("\nSell a license, as a shop does. Each paste sells one more:")
    for line in (
        "AT=$(date +%s)",
        f"BODY='{body}'",
        f"SIGNATURE=$(printf '%s' \"demo-$AT.$AT.$BODY\" | {signature})",
        f"curl -sS {headers} -d \"$BODY\" '{base_url}/in/generic/{_CONNECTION_ID}'; echo",
    ):
        output.print_line(f"  {line}")


def print_management_call(demo: Demo, api_url: str, another: str) -> None:
    """Print a management call; if the credentials are unknown, print the command ``another``, which makes new
    ones.
    """
    if demo.credentials is None:
        output.print_line("\nThe secret of the demo's API key was shown only once. To create another key:")
        output.print_line(f"  {another}")
    else:
        output.print_line("\nList the licenses; this API key is shown only now:")
        output.print_line(f"  curl -sS -u '{demo.credentials}' '{api_url}/licenses'; echo")


def _first_license(here: Installation) -> LicenseRecord | None:
    found: tuple[LicenseRecord, ...] = here.ask(FindLicenses(where=LicenseFilter(), after_id=0, limit=1))
    return found[0] if found else None


def _make(here: Installation) -> Demo:
    new = new_secrets()
    api_key: ApiKey = here.change(
        IssueApiKey(
            context=here.context, name=_API_KEY_NAME, permissions=Permissions.READ_WRITE, **new.hash_fields()
        )
    )
    by_api_key = structs.replace(here.context, by=api_key.id)
    policy: Policy = here.change(
        CreatePolicy(
            context=by_api_key,
            name="Demo",
            charset=UNAMBIGUOUS,
            chunks=5,
            chunk_length=5,
            separator="-",
            terms={"max_activations": _PLACES},
        )
    )
    records: tuple[LicenseRecord, ...] = here.change(
        GenerateLicenses(
            context=by_api_key,
            policy_id=policy.id,
            amount=1,
            status=Status.ACTIVE,
        )
    )
    connection = Connection(
        id=_CONNECTION_ID,
        shop=Shop.GENERIC,
        name=_CONNECTION_NAME,
        mapping=(MappedProduct(ANY_PRODUCT, policy.id),),
        created_at=here.now,
        updated_at=here.now,
    )
    opened: OpenedConnection = here.change(AddConnection(context=by_api_key, connection=connection))
    credentials = f"{new.consumer_key}:{new.consumer_secret}"
    return Demo(records[0].license.key, credentials, opened.secret)


_PRODUCTS = {101: "Lumen Studio", 102: "Lumen Server", 103: "Lumen Field Kit"}
_POLICIES = (
    ("Studio, one desk", "LS", 2),
    ("Studio, a team", "LT", 10),
    ("Server", "SRV", 5),
    ("Field Kit", "FK", 3),
)
#: The products of these policies.
_PRODUCT_IDS = (101, 101, 102, 103)
_CUSTOMERS = """Alder & Finch|Northlight Press|Kestrel Survey|Museum of Maps|Brightwater School|Odd Hours Film
Tidemark Boats|Larch Street Clinic|Pine Hollow Farm|Quartz & Sons|Sable Audio|Verdant Homes|Juniper Radio
Copper Lane Books|Ivory Coast Tours|Harbor Lights Hotel|Meadow Analytics|Orchard Software|Saffron Kitchen
Windmill Press""".replace("\n", "|").split("|")
_MACHINES = "desk-{:02}|MacBook-{}|WS-{:04}|render-{:02}|laptop-{}|studio-{:02}".split("|")
_PEOPLE = "anna ben carla deniz elif frank grace hugo ines jonas kim lena marta noor olga paul".split()
_PROGRAMS = ["LumenStudio/4.2 (Windows 11)", "LumenStudio/4.2 (macOS 15)", "LumenServer/2.8 (Linux)"]
_NETS = ("192.0.2.{}", "198.51.100.{}", "203.0.113.{}")
#: The statuses of sold licenses, as often as they occur.
_STATUSES = [Status.ACTIVE] * 15 + [Status.DELIVERED] * 3 + [Status.SOLD] * 2
_SUPPORT = Origin("user:1", "192.0.2.10", "")
_SERVER = Origin("keywright", "", "")


class _Vendor:
    """A made-up vendor, who sells and supports licenses day by day."""

    def __init__(self, storage: Storage, now: datetime, random: Random) -> None:
        self._executor = open_executor(storage)
        self._now = now
        self._random = random
        self._policies: list[Policy] = []
        self._sold: list[License] = []
        self._activations: list[tuple[License, Activation]] = []

    def do(self, commands: Iterable[Command]) -> list[tuple[Any, Any]]:
        """Decide the commands in the order of their times; return each with its outcome.

        Raises ``Unavailable`` where the database could not be written.
        """
        ordered = sorted(commands, key=lambda one: one.context.now)
        outcomes = self._executor.execute(ordered) if ordered else []
        for one in outcomes:
            if isinstance(one, Unavailable):
                raise one
        return list(zip(ordered, outcomes, strict=True))

    def prepare(self, first: datetime) -> None:
        """Save the names and policies that the sales need."""
        named = {NameKind.PRODUCT: _PRODUCTS, NameKind.CUSTOMER: dict(enumerate(_CUSTOMERS, 4001))}
        saved = [
            SaveName(context=Context(first, _SUPPORT, 1), kind=kind, number=number, name=name)
            for kind, names in named.items()
            for number, name in names.items()
        ]
        policies = [
            CreatePolicy(
                context=Context(first, _SUPPORT, 1),
                name=name,
                charset=UNAMBIGUOUS,
                chunks=4,
                chunk_length=5,
                separator="-",
                prefix=f"{prefix}-",
                terms=terms_from_first_activation(places, 365),
            )
            for name, prefix, places in _POLICIES
        ]
        outcomes = [outcome for _, outcome in self.do([*saved, *policies])]
        self._policies = [one for one in outcomes if isinstance(one, Policy)]

    def work(self, days_ago: int, sales: float) -> None:
        """Sell about ``sales`` licenses on a day, and let programs use some of those sold before."""
        pace = 0.35 if (self._now - timedelta(days=days_ago)).weekday() >= 5 else 1.26
        amount = max(int(sales * pace + self._random.random()), 1)
        for _, outcome in self.do(self._sale(self._moment(days_ago, 0.0, 0.4)) for _ in range(amount)):
            self._sold += [one.license for one in outcome]
        wanted = (len(self._sold) / 14 + 3) * pace * self._random.uniform(0.8, 1.2)
        calls = [self._program_call(self._moment(days_ago, 0.4, 1.0)) for _ in range(int(wanted))]
        changes = [
            self._support_call(self._moment(days_ago, 0.4, 1.0)) for _ in range(self._random.randrange(3))
        ]
        refused: Counter[str] = Counter()
        for command, outcome in self.do([*calls, *changes]):
            if isinstance(outcome, LicenseRecord) and isinstance(command, Activate):
                self._activations += [(outcome.license, one) for one in outcome.activations]
            elif isinstance(outcome, LimitReached):
                refused[outcome.key] += 1
        validations = int((len(self._activations) * 6 + 40) * pace * self._random.uniform(0.9, 1.1))
        evening = self._midnight(days_ago) + timedelta(hours=21)
        counters = SaveCounters(
            context=Context(min(evening, self._now), _SERVER),
            validations=validations,
            product_validations=self._by_product(validations),
            refused=dict(refused),
        )
        self.do([counters])

    def _by_product(self, validations: int) -> dict[int, int]:
        """Divide validations among the products in proportion to their activations."""
        products = Counter(license.product_id for license, _ in self._activations if license.product_id)
        return {one: validations * n // len(self._activations) for one, n in products.items() if one}

    def project(self) -> None:
        """Update the search terms."""
        rows = 1
        while rows:
            ((_, projected),) = self.do([ProjectEvents(context=Context(self._now, _SERVER), limit=500)])
            rows = projected.rows

    def _moment(self, days_ago: int, earliest: float, latest: float) -> datetime:
        """Draw a time within a part of a day (0 to 1), most likely in its middle; today ends now."""
        midnight = self._midnight(days_ago)
        length = min(self._now - midnight, timedelta(days=1)).total_seconds() - 1
        part = self._random.triangular(earliest, latest)
        return midnight + timedelta(seconds=max(int(part * length), 0))

    def _midnight(self, days_ago: int) -> datetime:
        return datetime.combine(self._now.date(), datetime.min.time(), UTC) - timedelta(days=days_ago)

    def _sale(self, at: datetime) -> GenerateLicenses:
        policy, product_id = self._random.choice(list(zip(self._policies, _PRODUCT_IDS, strict=True)))
        return GenerateLicenses(
            context=Context(at, Origin("api_key:1", "203.0.113.5", "shop/3.1"), 1),
            policy_id=policy.id,
            amount=1,
            status=self._random.choice(_STATUSES),
            order_id=70_000 + self._random.randrange(10_000),
            product_id=product_id,
            customer_id=4001 + self._random.randrange(len(_CUSTOMERS)),
        )

    def _program_call(self, at: datetime) -> Command:
        """Build the call of a program that takes a place or gives one up."""
        random = self._random
        origin = Origin(
            "program", random.choice(_NETS).format(random.randrange(1, 255)), random.choice(_PROGRAMS)
        )
        if self._activations and random.random() < 0.2:
            license, activation = self._activations.pop(random.randrange(len(self._activations)))
            return Deactivate(context=Context(at, origin), license=license.id, token=activation.token)
        machine = random.choice(_MACHINES)
        label = machine.format(random.choice(_PEOPLE) if "{}" in machine else random.randrange(1, 90))
        # Newer licenses are used more.
        license = self._sold[int(len(self._sold) * random.random() ** 0.6)]
        return Activate(context=Context(at, origin), license=license.id, label=label)

    def _support_call(self, at: datetime) -> UpdateLicense:
        """Build a change of a license by the vendor's support."""
        changes: dict[str, Any] = self._random.choice(
            [
                {"status": Status.DISABLED},
                {"status": Status.INACTIVE},
                {"expires_at": self._now + timedelta(days=self._random.randrange(3, 28))},
                {"times_activated_max": self._random.choice([5, 10, 25])},
            ]
        )
        license_id = self._random.choice(self._sold).id
        return UpdateLicense(context=Context(at, _SUPPORT, 1), license=license_id, changes=changes)


def fill(storage: Storage, now: datetime, *, licenses: int = 400, days: int = 75) -> None:
    """Sell about ``licenses`` licenses in the ``days`` days until ``now``, and let programs use them."""
    # The same data each time, except for the keys: policies draw them from the system's randomness.
    random = Random(licenses)  # noqa: S311
    vendor = _Vendor(storage, now, random)
    vendor.prepare(now - timedelta(days=days + 1))
    for days_ago in range(days, -1, -1):
        vendor.work(days_ago, licenses / days)
    vendor.project()
