"""An installation that looks as if a vendor had worked with it for months: what happened is done again by
the operations themselves, each at its own time.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from keywright.core.command import Command, Context, Origin
from keywright.core.errors import LimitReached
from keywright.db import Storage
from keywright.licensing.activations.commands import Activate, Deactivate
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses.commands import UpdateLicense
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.generators.commands import CreateGenerator, GenerateLicenses
from keywright.provisioning.generators.model import Generator
from keywright.registry import open_executor
from keywright.search.commands import ProjectEvents, SaveCounters

_PRODUCTS = {101: "Lumen Studio", 102: "Lumen Server", 103: "Lumen Field Kit"}
_CUSTOMERS = """Alder & Finch|Northlight Press|Kestrel Survey|Museum of Maps|Brightwater School|Odd Hours Film
Tidemark Boats|Larch Street Clinic|Pine Hollow Farm|Quartz & Sons|Sable Audio|Verdant Homes|Juniper Radio
Copper Lane Books|Ivory Coast Tours|Harbor Lights Hotel|Meadow Analytics|Orchard Software|Saffron Kitchen
Windmill Press""".replace("\n", "|").split("|")
_MACHINES = "desk-{:02}|MacBook-{}|WS-{:04}|render-{:02}|laptop-{}|studio-{:02}".split("|")
_PEOPLE = "anna ben carla deniz elif frank grace hugo ines jonas kim lena marta noor olga paul".split()
_PROGRAMS = ["LumenStudio/4.2 (Windows 11)", "LumenStudio/4.2 (macOS 15)", "LumenServer/2.8 (Linux)"]
_NETS = ("192.0.2.{}", "198.51.100.{}", "203.0.113.{}")
#: What becomes of a license that was sold; most are used.
_FATES = [Status.ACTIVE] * 15 + [Status.DELIVERED] * 3 + [Status.SOLD] * 2
_AT_THE_DESK = Origin("user:1", "192.0.2.10", "")
_ITSELF = Origin("keywright", "", "")


class _Past:
    """The months until now, day by day."""

    def __init__(self, storage: Storage, now: datetime, random: Random) -> None:
        self._batches = open_executor(storage)
        self._now = now
        self._random = random
        self._generators: list[Generator] = []
        self._sold: list[License] = []
        self._places: list[tuple[License, Activation]] = []

    def do(self, commands: Iterable[Command]) -> list[tuple[Any, Any]]:
        """Decide them in the order of their times; returns what they were and what became of them."""
        ordered = sorted(commands, key=lambda one: one.context.now)
        return list(zip(ordered, self._batches.execute(ordered) if ordered else (), strict=True))

    def prepare(self, first: datetime) -> None:
        """What was there before the first license was sold."""
        named = {NameKind.PRODUCT: _PRODUCTS, NameKind.CUSTOMER: dict(enumerate(_CUSTOMERS, 4001))}
        saved = [
            SaveName(context=Context(first, _AT_THE_DESK, 1), kind=kind, number=number, name=name)
            for kind, names in named.items()
            for number, name in names.items()
        ]
        recipes = [("Studio, one desk", "LS", 2), ("Studio, a team", "LT", 10), ("Server", "SRV", 5)]
        made = [
            CreateGenerator(
                context=Context(first, _AT_THE_DESK, 1),
                name=name,
                charset=UNAMBIGUOUS,
                chunks=4,
                chunk_length=5,
                separator="-",
                prefix=f"{prefix}-",
                times_activated_max=places,
                expires_in_days=365,
            )
            for name, prefix, places in recipes
        ]
        outcomes = [outcome for _, outcome in self.do([*saved, *made])]
        self._generators = [one for one in outcomes if isinstance(one, Generator)]

    def live(self, days_ago: int, sales: float) -> None:
        """A day on which about so many licenses are sold, and some of those sold before are used."""
        pace = 0.35 if (self._now - timedelta(days=days_ago)).weekday() >= 5 else 1.26
        amount = max(int(sales * pace + self._random.random()), 1)
        for _, outcome in self.do(self._sale(self._moment(days_ago, 0.0, 0.4)) for _ in range(amount)):
            self._sold += [one.license for one in outcome]
        wanted = (len(self._sold) / 14 + 3) * pace * self._random.uniform(0.8, 1.2)
        uses = [self._use(self._moment(days_ago, 0.4, 1.0)) for _ in range(int(wanted))]
        care = [self._care(self._moment(days_ago, 0.4, 1.0)) for _ in range(self._random.randrange(3))]
        refused: Counter[str] = Counter()
        for command, outcome in self.do([*uses, *care]):
            if isinstance(outcome, LicenseRecord) and isinstance(command, Activate):
                self._places += [(outcome.license, one) for one in outcome.activations]
            elif isinstance(outcome, LimitReached):
                refused[outcome.key] += 1
        validations = int((len(self._places) * 6 + 40) * pace * self._random.uniform(0.9, 1.1))
        evening = self._midnight(days_ago) + timedelta(hours=21)
        tally = SaveCounters(
            context=Context(min(evening, self._now), _ITSELF), validations=validations, refused=dict(refused)
        )
        self.do([tally])

    def follow(self) -> None:
        """Bring what follows the events up to them, so that nobody has to wait for it."""
        rows = 1
        while rows:
            ((_, followed),) = self.do([ProjectEvents(context=Context(self._now, _ITSELF), limit=500)])
            rows = followed.rows

    def _moment(self, days_ago: int, earliest: float, latest: float) -> datetime:
        """Some time of that part of a day (of what there was of it until now), mostly in the middle."""
        midnight = self._midnight(days_ago)
        length = min(self._now - midnight, timedelta(days=1)).total_seconds() - 1
        part = self._random.triangular(earliest, latest)
        return midnight + timedelta(seconds=max(int(part * length), 0))

    def _midnight(self, days_ago: int) -> datetime:
        return datetime.combine(self._now.date(), datetime.min.time(), UTC) - timedelta(days=days_ago)

    def _sale(self, at: datetime) -> GenerateLicenses:
        generator = self._random.choice(self._generators)
        return GenerateLicenses(
            context=Context(at, Origin("api_key:1", "203.0.113.5", "shop/3.1"), 1),
            generator_id=generator.id,
            amount=1,
            status=self._random.choice(_FATES),
            order_id=70_000 + self._random.randrange(10_000),
            product_id=self._random.choice(list(_PRODUCTS)),
            customer_id=4001 + self._random.randrange(len(_CUSTOMERS)),
        )

    def _use(self, at: datetime) -> Command:
        """A program takes a place, or gives one up."""
        random = self._random
        origin = Origin(
            "program", random.choice(_NETS).format(random.randrange(1, 255)), random.choice(_PROGRAMS)
        )
        if self._places and random.random() < 0.2:
            license, activation = self._places.pop(random.randrange(len(self._places)))
            return Deactivate(context=Context(at, origin), license=license.id, token=activation.token)
        machine = random.choice(_MACHINES)
        label = machine.format(random.choice(_PEOPLE) if "{}" in machine else random.randrange(1, 90))
        # Newer licenses are used more.
        license = self._sold[int(len(self._sold) * random.random() ** 0.6)]
        return Activate(context=Context(at, origin), license=license.id, label=label)

    def _care(self, at: datetime) -> UpdateLicense:
        """Somebody at the vendor's changes a license."""
        changes: dict[str, Any] = self._random.choice(
            [
                {"status": Status.DISABLED},
                {"status": Status.INACTIVE},
                {"expires_at": self._now + timedelta(days=self._random.randrange(3, 28))},
                {"times_activated_max": self._random.choice([5, 10, 25])},
            ]
        )
        license_id = self._random.choice(self._sold).id
        return UpdateLicense(context=Context(at, _AT_THE_DESK, 1), license=license_id, changes=changes)


def fill(storage: Storage, now: datetime, *, licenses: int = 400, days: int = 75) -> None:
    """Sell about so many licenses in that many days until now, and let programs use them."""
    random = Random(licenses)
    past = _Past(storage, now, random)
    past.prepare(now - timedelta(days=days + 1))
    for days_ago in range(days, -1, -1):
        past.live(days_ago, licenses / days)
    past.follow()
