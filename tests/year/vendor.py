"""A vendor's shop, customers, programs and staff over HTTP, beside the ledger that knows what must become of
it all.

Whatever is asked is asked of any of the servers, and each answer is compared with the ledger's at once.
"""

import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from itertools import zip_longest
from pathlib import Path
from typing import Any

from keywright.provisioning.shops.model import MappedProduct, QuantityRule
from keywright.registry import open_executor
from tests.connections import a_body, a_paid_order, connect, signed
from tests.http.admin_browser import Visitor, make_users
from tests.http.asking import Client, Reply
from tests.portal import PortalVisitor
from tests.receiver import Receiver
from tests.server import RunningServer, wait_until
from tests.smtp_server import Mailbox
from tests.year.ledger import DAY, OFFERS, Ledger, Sold

#: How long a subscription is paid for at a time; it ends half an hour past a full hour, when nobody asks.
PERIOD = 14 * DAY
_HALF = timedelta(minutes=30)
#: The beginnings of the subjects of mails, by kind.
_SUBJECTS = {
    "sold": r"Your license for \w+$",
    "renewed": r".* has been renewed$",
    "changed": r".* has changed$",
    "expiring": r".* ends on .*",
    "expired": r".* has ended$",
    "code": r"Your sign-in code for .*",
}
_KEY = re.compile(r"\b(?:[0-9A-F]{4}-){3}[0-9A-F]{4}\b")


class Clock:
    """The clock of all servers: a file with how many seconds it is ahead."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.now = datetime.now(UTC)

    def set(self, moment: datetime) -> None:
        """Let it be this moment now."""
        self.now = moment
        ahead = int((moment - datetime.now(UTC)).total_seconds())
        # In place and of one length: servers read it all the time.
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(b"%019d\n" % ahead)


class Vendor:
    """All that the vendor's world does; ``chance`` decides what."""

    def __init__(
        self,
        servers: list[RunningServer],
        clock: Clock,
        mailbox: Mailbox,
        receiver: Receiver,
        chance: random.Random,
    ) -> None:
        self.servers, self.clock, self.ledger = servers, clock, Ledger()
        self._mailbox, self._receiver, self._chance = mailbox, receiver, chance
        self._asked = 0
        self.counted: Counter[str] = Counter()
        make_users(servers[0], "ada")
        self._credentials = servers[0].api_key()
        self._open_shop()

    # --- what there is at first -------------------------------------------------------------------

    def _open_shop(self) -> None:
        self.product = self._manage("POST", "/products", name="Paint", code="paint").json["id"]
        mapping = []
        for name, offer in OFFERS.items():
            per = {"pages": "month", "calls": "day"}
            meters = {
                meter: {"limit": limit, "per": per[meter], "overage": "allow" if more else "refuse"}
                for meter, (limit, more) in offer.meters.items()
            }
            places = {"max_activations": offer.places, "max_leases": offer.leases}
            terms = {"meters": meters} | {one: value for one, value in places.items() if value}
            keys = {"charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 4}
            policy = self._manage(
                "POST", "/policies", name=name, product_id=self.product, terms=terms, key=keys
            ).json["id"]
            rule = QuantityRule.DEVICES if name == "plan" else QuantityRule.KEYS
            mapping.append(MappedProduct(name, policy, quantity=rule))
        with self.servers[0].storage() as storage:
            connect(open_executor(storage), mapping=tuple(mapping))
        self._manage("POST", "/webhooks", url=self._receiver.url, events=["license.*", "usage.*"])

    def _any(self) -> RunningServer:
        return self._chance.choice(self.servers)

    def _manage(self, method: str, path: str, **body: Any) -> Reply:
        with Client(self._any(), self._credentials) as client:
            reply = client.ask(method, f"/v3{path}", json_body=body or None)
        assert reply.status in (200, 201, 204), (method, path, reply)
        return reply

    def _call(self, path: str, one: Sold, **body: Any) -> Reply:
        """A call of a program, which no one may answer otherwise than the ledger."""
        self.counted["calls"] += 1
        with Client(self._any()) as client:
            return client.post(f"/v3{path}", json_body={"license_key": one.key, **body})

    # --- the shop ---------------------------------------------------------------------------------

    def _tell(self, body: bytes) -> None:
        """The shop sends an event, some of them twice."""
        self._asked += 1
        for _ in range(self._chance.choice((1, 1, 2))):
            headers = signed(body, self.clock.now, f"event-{self._asked}")
            with Client(self._any()) as client:
                assert client.post("/in/generic/1", body=body, headers=headers).status == 200

    def _next_end(self) -> datetime:
        return self.clock.now.replace(minute=0, second=0, microsecond=0) + PERIOD + timedelta(hours=1) + _HALF

    def sell(self, product: str) -> Sold:
        """A sale; the buyer reads the key in the mail once it is there (``settle``)."""
        order = f"order-{len(self.ledger.sold) + 1}"
        until = self._next_end() if OFFERS[product].is_subscription else None
        fields: dict[str, Any] = {
            "customer": {"email": f"{order}@example.com", "name": "Ada", "language": "en"},
            "lines": [{"line": "1", "product": product, "quantity": 1}],
        }
        if until is not None:
            fields |= {"subscription": f"sub-{order}", "until": until.isoformat()}
        self._tell(a_paid_order(order, self.clock.now, **fields))
        self.counted["sales"] += 1
        return self.ledger.sell(order, product, until)

    def renew(self, one: Sold) -> None:
        """The subscription is paid for another period, from its end on, or from now if that is over."""
        until = self._next_end() if one.refusal(self.clock.now) else (one.until or self.clock.now) + PERIOD
        payment = f"{one.order}-{until:%Y%m%d}"
        body = {"subscription": f"sub-{one.order}", "until": until.isoformat(), "order": payment}
        self._tell(a_body("subscription.renewed", self.clock.now, **body))
        self.counted["renewals"] += 1
        self.ledger.renew(one, until)

    def change_seats(self, one: Sold, quantity: int) -> None:
        """The subscription has another number of units."""
        lines = [{"line": "1", "product": one.product, "quantity": quantity}]
        body = {"subscription": f"sub-{one.order}", "lines": lines}
        self._tell(a_body("subscription.changed", self.clock.now, **body))
        self.counted["changes"] += 1
        self.ledger.change_seats(one, quantity)

    def refund(self, one: Sold) -> None:
        """The buyer gets the money back."""
        self._tell(a_body("order.refunded", self.clock.now, order=one.order))
        self.counted["refunds"] += 1
        self.ledger.change_by_hand(one, is_disabled=True)

    def trade(self) -> None:
        """A morning of the shop: renewals that are due, or late; sales; other seats; refunds."""
        now, chance = self.clock.now, self._chance
        for one in [*self.ledger.sold.values()]:
            left = None if one.until is None else one.until - now
            is_due = left is not None and timedelta(0) < left < DAY
            is_late = left is not None and left < timedelta(0)
            if (is_due and chance.random() < 0.75) or (is_late and chance.random() < 0.05):
                self.renew(one)
            elif one.product == "plan" and left and left > 2 * DAY and chance.random() < 0.05:
                self.change_seats(one, self._other_quantity(one))
            elif one.product == "pro" and not one.is_disabled and chance.random() < 0.02:
                self.refund(one)
        for _ in range(chance.choice((0, 1, 1))):
            self.sell(chance.choice([*OFFERS]))

    def _other_quantity(self, one: Sold) -> int:
        now = (one.places or 0) // (one.offer.places or 1)
        return self._chance.choice([number for number in (1, 2, 3) if number != now])

    # --- programs, and the vendor's hands ---------------------------------------------------------

    def activate(self, one: Sold) -> None:
        """One of the customer's devices asks for a place."""
        device = f"device-{one.order}-{self._chance.randrange(4)}"
        wanted = self.ledger.activate(one, device, self.clock.now)
        reply = self._call("/activate", one, fingerprint=device, name=device)
        assert reply.json.get("code") == wanted, (one, device, reply)
        if wanted == "limit_reached":
            # It is written after its answer: other changes, or 30 days by the clock, could come between.
            query = "SELECT max(last_refused_at) FROM limit_refusals WHERE license_id = ?"
            # The clock of servers is set in whole seconds.
            asked_at = int(self.clock.now.timestamp()) - 1
            wait_until(lambda: (self.servers[0].sql(query, one.number)[0][0] or 0) >= asked_at, "a refusal")
            self.settle()

    def deactivate(self, one: Sold) -> None:
        """A device gives up its place."""
        device = self._chance.choice(sorted(one.devices))
        reply = self._call("/deactivate", one, fingerprint=device)
        assert reply.json["was_active"] is True, (one, reply)
        self.ledger.deactivate(one, device)

    def validate(self, one: Sold) -> None:
        """A program asks whether it may run."""
        found = self._call("/validate", one).json
        wanted = one.refusal(self.clock.now)
        assert wanted is None or (found["code"], found["valid"]) == (wanted, False), (one, found)
        if wanted is None and one.offer.leases is None:
            assert found["valid"] is True, (one, found)

    def count(self, one: Sold) -> None:
        """A program counts usage."""
        meter, amount = self._chance.choice([*one.offer.meters]), self._chance.randint(1, 12)
        wanted = self.ledger.count(one, meter, amount, self.clock.now)
        reply = self._call("/usage", one, meter=meter, amount=amount)
        assert reply.json.get("code") == wanted, (one, meter, amount, reply)

    def lease(self, one: Sold) -> None:
        """One holder more than there are leases: the last one is refused; all others give theirs back."""
        refusal = one.refusal(self.clock.now)
        free, leases = one.offer.leases or 0, []
        for number in range(free + 1):
            wanted = refusal or (None if number < free else "no_free_lease")
            reply = self._call("/leases", one, holder=f"holder-{number}")
            assert reply.json.get("code") == wanted, (one, number, reply)
            if wanted is None:
                leases.append(reply.json["lease"]["id"])
        for lease in leases:
            assert self._call("/leases/release", one, lease_id=lease).status == 200

    def update(self, one: Sold) -> None:
        """A program looks for a newer release."""
        newest, refusal = self.ledger.newest_release, one.refusal(self.clock.now)
        found = self._call("/updates", one, product="paint", app_version="0.1.0", platform="windows").json
        wanted = None if refusal or newest is None else newest
        assert (found["release"] or {"version": None})["version"] == wanted, (one, found)

    def change_by_hand(self, one: Sold) -> None:
        """The vendor gives a customer a place more."""
        places = (one.places or 0) + 1
        self._manage("PATCH", f"/licenses/{one.number}", terms={"max_activations": places})
        self.ledger.change_by_hand(one, places=places)

    def release(self, version: str) -> None:
        """The vendor publishes a version."""
        release = self._manage("POST", "/releases", product_id=self.product, version=version).json["id"]
        file = {"name": f"paint-{version}.msi", "platform": "windows", "size": 1, "sha256": "0" * 64}
        self._manage("POST", f"/releases/{release}/files", url="https://files.example.com/x", **file)
        self._manage("POST", f"/releases/{release}/publish")
        self.ledger.newest_release = version
        self.counted["releases"] += 1

    def work(self) -> None:
        """An afternoon of programs: a few of those that there are."""
        known = [one for one in self.ledger.sold.values() if one.key]
        for one in self._chance.sample(known, min(len(known), 8)):
            self.validate(one)
            if one.offer.leases is None:
                self.activate(one)
                if one.devices and self._chance.random() < 0.3:
                    self.deactivate(one)
            else:
                self.lease(one)
            if one.offer.meters:
                self.count(one)
                if not one.is_disabled and self._chance.random() < 0.05:
                    self.change_by_hand(one)
            if self._chance.random() < 0.3:
                self.update(one)

    def sign_in(self) -> None:
        """An employee signs in, and one of the customers."""
        with Visitor(self._any()) as ada:
            ada.sign_in("ada")
        self.ledger.sign_ins += 1
        known = [one for one in self.ledger.sold.values() if one.key]
        if known:
            one = self._chance.choice(known)
            server = self._any()
            customer = server.sql("SELECT customer_id FROM licenses WHERE id = ?", one.number)[0][0]
            with PortalVisitor(server) as visitor:
                visitor.sign_in(one.email, customer)
            self.ledger.mails[one.email, "code"] += 1

    # --- whether the books agree ------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until everything has come that must come of what was done, or of the time alone."""
        self.ledger.pass_time(self.clock.now)
        wait_until(lambda: len(self.webhooks()) >= self.ledger.webhooks, "webhooks")
        wanted = self.ledger.mails.total()
        wait_until(lambda: len(self._mails()) >= wanted, "mails")
        self._read_keys()

    def _read_keys(self) -> None:
        """Buyers find their keys in the mails."""
        new = {one.email: one for one in self.ledger.sold.values() if not one.key}
        if not new:
            return
        for address, message in self._mails().values():
            if address in new and kind_of(message) == "sold":
                body = message.get_body(("plain",))
                assert body is not None
                found = _KEY.search(body.get_content())
                assert found is not None, body.get_content()
                new[address].key = found[0]
        for one in new.values():
            assert one.key, one
            page = self._manage("POST", "/licenses/search", key=one.key).json
            one.number = page["items"][0]["id"]

    def _mails(self) -> dict[str, tuple[str, EmailMessage]]:
        """What has come, by Message-ID: one that comes again is of a server that was killed before it could
        write down that the mail was sent.
        """
        messages = zip(self._mailbox.recipients, [*self._mailbox.messages], strict=False)
        return {str(one["Message-ID"]): (address, one) for address, one in messages}

    def webhooks(self) -> dict[int, Any]:
        """What has come, by the event's ID: a server that was killed may have sent one twice."""
        return {one.event_id: one for one in [*self._receiver.received]}

    def differences(self, server: RunningServer | None = None) -> list[str]:
        """Where the books and a server differ; the first one, with what it has sent, unless one is given."""
        found = self._compare_licenses(server or self.servers[0])
        return found if server is not None else found + self._compare_sent() + self._compare_staff()

    def _compare_licenses(self, server: RunningServer) -> list[str]:
        rows = server.sql("SELECT id, status, expires_at, times_activated, times_activated_max FROM licenses")
        held: dict[int, set[str]] = defaultdict(set)
        for number, name in server.sql(
            "SELECT license_id, label FROM activations WHERE deactivated_at IS NULL"
        ):
            held[number].add(name)
        used: dict[int, dict[tuple[str, int], tuple[int, bool]]] = defaultdict(dict)
        for number, meter, start, amount, closed_at in server.sql(
            "SELECT license_id, meter, period_start, used, closed_at FROM past_usage UNION ALL "
            "SELECT license_id, meter, period_start, used, NULL FROM meter_usage"
        ):
            used[number][meter, start] = amount, closed_at is not None
        theirs = {
            number: (status, until, held[number], taken, places, used[number])
            for number, status, until, taken, places in rows
        }
        ours = {one.number: _state_of(one) for one in self.ledger.sold.values()}
        return [
            f"license {number}: {ours.get(number)} in the books, {theirs.get(number)} there"
            for number in sorted(ours.keys() | theirs.keys())
            if ours.get(number) != theirs.get(number)
        ]

    def _compare_sent(self) -> list[str]:
        sent: dict[int, list[str]] = defaultdict(list)
        for _, one in sorted(self.webhooks().items()):
            sent[one.json["data"]["license_id"]].append(one.json["type"])
        found = [
            f"license {one.number}: of the webhooks, {_differing(one.events, sent[one.number])}"
            for one in self.ledger.sold.values()
            if sent[one.number] != one.events
        ]
        came = Counter((address, kind_of(one)) for address, one in self._mails().values())
        if came != self.ledger.mails:
            found.append(
                f"mails: {self.ledger.mails - came} are missing, {came - self.ledger.mails} too many"
            )
        return found

    def _compare_staff(self) -> list[str]:
        count = "SELECT count(*) FROM events WHERE name = 'user.signed_in'"
        ((signed_in,),) = self.servers[0].sql(count)
        return [] if signed_in == self.ledger.sign_ins else [f"sign-ins: {self.ledger.sign_ins}, {signed_in}"]


def _differing(ours: list[str], theirs: list[str]) -> str:
    """Where two lists begin to differ."""
    same = next(n for n, pair in enumerate(zip_longest(ours, theirs)) if pair[0] != pair[1])
    return f"the {same + 1}th and on are {ours[same:]} in the books, {theirs[same:]} came"


def kind_of(message: EmailMessage) -> str:
    """The kind of a mail, by its subject."""
    subject = str(message["Subject"])
    return next((kind for kind, like in _SUBJECTS.items() if re.match(like, subject)), subject)


def _state_of(one: Sold) -> tuple[Any, ...]:
    """A license as the database has it."""
    until = None if one.until is None else int(one.until.timestamp())
    used = {
        (meter, int(start.timestamp())): (amount, (meter, start) in one.closed)
        for (meter, start), amount in one.used.items()
    }
    return 5 if one.is_disabled else 3, until, one.devices, len(one.devices), one.places, used
