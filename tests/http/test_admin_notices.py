"""The pages about notices: written, published, mailed to the customers affected, withdrawn."""

from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from tests.http.admin_browser import Visitor, asked, decide, said, title
from tests.http.admin_licenses import make, where_to
from tests.http.test_admin_undo import undo_form
from tests.makers import create_product
from tests.server import wait_until

DATABASES = ("sqlite",)


def make_customers(bob: Visitor) -> None:
    """Create two customers with a device of product 55, one without an address."""
    decide(bob.server, create_product(55))
    for number, email in ((5501, "noor@example.com"), (5502, None)):
        fields = NewCustomer(id=number, name=f"Noor {number}", email=email)
        key, device = f"NOTED-{number}", Device(f"device-{number}", app_version="3.1")
        decide(bob.server, CreateCustomer(**asked(fields=fields)))
        make(bob.server, key=key, product_id=55, customer_id=number)
        decide(bob.server, ActivateDevice(**asked(license=key, device=device)))


def test_a_notice_is_written_published_and_its_customers_are_notified(bob: Visitor) -> None:
    """The preview contains the number of affected customers, and their names."""
    make_customers(bob)
    form = {"product_id": "55", "title": "A hole", "affected": "< x", "severity": "high"}
    form["is_security"] = "yes"
    assert "must be a version such as" in said(bob.post("/notices/new", **form))
    form |= {"affected": "< 3.2.1", "fixed_in": "3.2.1", "text": "Please update."}
    path = bob.post("/notices/new", **form).headers["location"].removeprefix("/admin")
    assert title(bob.get(path)) == "A hole"
    assert "< 3.2.1 · draft" in said(bob.get(path))
    bob.post(f"{path}/edit", **form | {"title": "A bad hole"})
    assert "A bad hole < 3.2.1 draft" in said(bob.get("/products/55"))
    assert "Publish A bad hole?" in said(bob.get(f"{path}/publish"))
    bob.post(f"{path}/publish")
    page = said(bob.get(path))
    assert "The notice was published." in page
    assert "About security yes" in page
    question = said(bob.get(f"{path}/notify"))
    assert "2 customers have a device with an affected version." in question
    assert "1 of them will get a mail, in their language. Noor 5501" in question
    assert "Without an e-mail address, not reachable: 1." in question
    job = bob.post(f"{path}/notify", once="n" * 43).headers["location"]
    assert bob.post(f"{path}/notify", once="n" * 43).headers["location"] == job, "pressed twice"
    wait_until(lambda: "done" in said(bob.get(job.removeprefix("/admin"))), "the job")
    page = said(bob.get(job.removeprefix("/admin")))
    assert "2 customers done. 1 of them was skipped." in page
    assert "Customer 5502: no e-mail address." in page
    shown = said(bob.get(path))
    assert "no address: 1" in shown
    assert "Noor 5501 noor@example.com 3.1" in shown
    lines = bob.get(f"{path}/recipients.csv").text.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["5501", "5502"]
    assert "not reachable: 1" in said(bob.get(f"{path}/notify"))
    assert "Withdraw A bad hole?" in said(bob.get(f"{path}/withdraw"))
    bob.post(f"{path}/withdraw")
    assert "withdrawn" in said(bob.get(path))
    assert "still in use" in said(bob.post(f"{path}/delete"))


def test_a_deleted_draft_of_a_notice_is_restored(bob: Visitor) -> None:
    decide(bob.server, create_product(56))
    form = {"product_id": "56", "title": "A draft", "affected": ">= 1", "severity": "low"}
    form["is_security"] = "no"
    path = bob.post("/notices/new", **form).headers["location"].removeprefix("/admin")
    bob.post(f"{path}/delete")
    page = bob.get("/notices")
    assert "The notice was deleted." in said(page)
    bob.post(undo_form(page))
    assert "Undone: the notice is as before." in said(bob.get("/products/56"))
    assert "A draft >= 1 draft" in said(bob.get("/products/56"))


def test_a_notice_whose_product_is_gone_is_not_restored(bob: Visitor) -> None:
    decide(bob.server, create_product(958))
    form = {"product_id": "958", "title": "Too late", "affected": ">= 1", "severity": "low"}
    path = where_to(bob.post("/notices/new", **form, is_security="no"))
    bob.post(f"{path}/delete")
    back = undo_form(bob.get("/notices"))
    bob.post("/products/958/delete")
    assert where_to(bob.post(back)) == "/notices"
    assert "There is no product 958." in said(bob.get("/notices"))
