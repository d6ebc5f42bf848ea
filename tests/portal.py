"""The portal for tests: customers with licenses, and a browser without a window."""

import re
from html import unescape
from typing import Any, Self

import httpx
from sqlalchemy import select

from keywright.core.command import Origin
from keywright.db import ReadTransaction
from keywright.db.schema import portal_sign_ins
from keywright.identity.passwords import derive_code, link_path
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.licensing.licenses.model import Status
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.licenses import CustomerReference, IssueLicenses
from keywright.provisioning.products import CreateProduct, NewProduct
from keywright.provisioning.releases.commands import AddFile, CreateRelease, PublishRelease
from keywright.provisioning.releases.fields import NewFile, NewRelease
from tests.http.admin_browser import asked, decide, look_up
from tests.server import RunningServer

_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')


def make_product(server: RunningServer, name: str = "Photo Editor") -> int:
    """A product; returns its ID."""
    return int(decide(server, CreateProduct(**asked(fields=NewProduct(name=name))))[0].id)


def publish_release(
    server: RunningServer, product_id: int, version: str, *, how: dict[str, Any] | None = None, **members: Any
) -> int:
    """A release with a file for Windows and one for macOS, at the vendor's place; returns its ID."""
    fields = NewRelease(product_id=product_id, version=version, **members)
    release = decide(server, CreateRelease(**asked(fields=fields)))[0]
    files = []
    for platform, name in (("macos", f"app-{version}.dmg"), ("windows", f"app-{version}.msi")):
        url = f"https://files.example.com/{name}"
        file = NewFile(name=name, platform=platform, url=url, size=1_500_000, sha256=version[0] * 64)
        files += decide(server, AddFile(**asked(release_id=release.id, fields=file)))
    decide(server, PublishRelease(**asked(release_id=release.id, checked=files, **how or {})))
    return int(release.id)


def make_customer(server: RunningServer, email: str, **fields: Any) -> int:
    """A customer; returns the ID."""
    return int(decide(server, CreateCustomer(**asked(fields=NewCustomer(email=email, **fields))))[0].id)


def make_license(
    server: RunningServer,
    key: str,
    customer_id: int | None = None,
    *,
    devices: tuple[str, ...] = (),
    terms: dict[str, Any] | None = None,
    product_id: int | None = None,
    **fields: Any,
) -> int:
    """A license with devices; returns its ID."""
    [issued] = decide(
        server,
        IssueLicenses(
            **asked(
                key=key,
                terms=terms or {},
                status=Status.ACTIVE,
                product_id=product_id,
                customer=None if customer_id is None else CustomerReference(id=customer_id),
                **fields,
            )
        ),
    )
    for name in devices:
        activate(server, key, name)
    return int(issued.licenses[0].license.id)


def activate(server: RunningServer, key: str, name: str) -> int:
    """Activate a device of this name; returns the ID of its activation."""
    device = Device(fingerprint=f"fingerprint of {name}", name=name, platform="macOS")
    origin = Origin("program", "192.0.2.7", "")
    return int(
        decide(server, ActivateDevice(**asked(license=key, device=device, origin=origin)))[0].activation.id
    )


def find_sign_ins(server: RunningServer, customer_id: int) -> list[int]:
    """The IDs of the customer's sign-ins."""

    def find(tx: ReadTransaction) -> list[int]:
        query = select(portal_sign_ins.c.id).where(portal_sign_ins.c.customer_id == customer_id)
        return list(tx.connection.execute(query).scalars())

    return list(look_up(server, find))


def mailed_code(server: RunningServer, customer_id: int) -> str:
    """A code that was mailed to the customer."""
    sign_in_id = str(find_sign_ins(server, customer_id)[-1])
    return str(look_up(server, lambda tx: derive_code(tx.key_ring, sign_in_id)))


def mailed_link(server: RunningServer, customer_id: int) -> str:
    """The path of a link that was mailed to the customer."""
    sign_in_id = str(find_sign_ins(server, customer_id)[-1])
    return str(look_up(server, lambda tx: link_path(tx.key_ring, sign_in_id)))


class PortalVisitor:
    """A browser without a window. ``get`` and ``post`` take paths below /portal, and follow no redirects."""

    def __init__(self, server: RunningServer, **headers: str) -> None:
        self.server = server
        # Without TLS: to read the certificates of this machine takes longer than most tests.
        self.http = httpx.Client(base_url=server.base_url, headers=headers, timeout=60, verify=False)  # noqa: S501

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.http.get(f"/portal{path}", headers=headers)

    def post(self, path: str, **fields: str | bytes) -> httpx.Response:
        """Send a form as the pages do."""
        headers = {"Origin": self.server.base_url, "Sec-Fetch-Site": "same-origin"}
        return self.http.post(
            f"/portal{path}", data={"csrf_token": self.form_token, **fields}, headers=headers
        )

    @property
    def form_token(self) -> str:
        """The token in the forms of this browser."""
        found = _TOKEN.search(self.get("/lost-keys").text)
        assert found is not None
        return found[1]

    def sign_in(self, email: str, customer_id: int) -> Self:
        """Sign in with a code."""
        assert self.post("/sign-in", email=email).status_code == 200
        asked = self.http.cookies["keywright-sign-in"].rpartition(".")[2]
        assert int(asked) in find_sign_ins(self.server, customer_id)
        code = look_up(self.server, lambda tx: derive_code(tx.key_ring, asked))
        answer = self.post("/sign-in/code", email=email, code=code)
        assert answer.status_code == 303, answer.text
        return self

    def enter_key(self, key: str) -> Self:
        """Show the license with a key alone."""
        assert self.post("/license", key=key).status_code == 303
        return self


def said(answer: httpx.Response) -> str:
    """The texts of a page, without its tags."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.text))).strip()
