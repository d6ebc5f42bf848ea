"""Support sees the transfers of a license, cancels offers, and undoes transfers; jobs count claims."""

import re

from keywright.provisioning.ownership.model import AcceptTransfer, ClaimLicense, OfferLicense
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import events, found, make
from tests.makers import create_policy, set_terms
from tests.portal import make_customer
from tests.server import wait_until


def test_support_cancels_an_offer_and_undoes_a_transfer(bob: Visitor, carol: Visitor) -> None:
    server = bob.server
    owner = make_customer(server, "ann@transfers.example", name="Ann Transfers")
    license = make(server, customer_id=owner)
    decide(server, set_terms({"transferable": "always", "transfer_after_days": 0}, license.key))
    offer = OfferLicense(**asked(license=license.id, email="ben@transfers.example"))
    [first] = decide(server, offer)
    here = f"/licenses/{license.id}"
    assert "Ann Transfers ben@transfers.example offered" in said(bob.get(here))
    assert f"{here}/transfers/{first.id}/cancel" not in carol.get(here).text
    assert carol.post(f"{here}/transfers/{first.id}/cancel").status_code == 403
    bob.post(f"{here}/transfers/{first.id}/cancel")
    page = said(bob.get(here))
    assert "The offer was canceled." in page
    assert "Ann Transfers ben@transfers.example ended" in page
    [second] = decide(server, offer)
    decide(server, AcceptTransfer(**asked(license=license.id, transfer_id=second.id)))
    assert "Ann Transfers ben@transfers.example accepted" in said(bob.get(here))
    bob.post(f"{here}/transfers/{second.id}/undo")
    assert "The license went back to its former customer." in said(bob.get(here))
    bob.post(f"{here}/transfers/{second.id}/undo")
    assert "There is no such transfer." in said(bob.get(here))
    now = found(server, license)
    assert (now.customer_id, now.key != license.key) == (owner, True)
    names = [name.partition(".")[2] for name, _, _ in events(server, license) if "transfer" in name]
    offered, handed_on = "transfer_offered", "transferred"
    assert names == [offered, "transfer_ended", offered, handed_on, handed_on]
    assert "License transferred to another customer" in said(bob.get(f"{here}/history"))


def test_the_page_of_a_batch_counts_what_was_claimed(bob: Visitor) -> None:
    server = bob.server
    [policy] = decide(server, create_policy(name="Boxes"))
    number = policy.id
    answer = bob.post(f"/policies/{number}/generate", amount="3", status="active", claimable="yes")
    job = answer.headers["location"].removeprefix("/admin")
    made = f"SELECT license_id FROM job_licenses WHERE job_id = {int(job.rpartition('/')[2])}"  # noqa: S608
    wait_until(lambda: len(server.sql(made)) == 3, "the licenses")
    wait_until(lambda: "3 licenses done." in said(bob.get(job)), "the end of the job")
    customer = make_customer(server, "box@transfers.example")
    ids = [one for (one,) in server.sql(made)]
    decide(server, ClaimLicense(**asked(license=ids[0], customer_id=customer)))
    assert re.search("Customers claimed 1 of these licenses, and 0 were activated", said(bob.get(job)))
