"""The description of a job's licenses: it never omits a condition."""

import pytest

from keywright.db import Storage, run_read
from keywright.http.admin.job_text import scope_of
from keywright.jobs.orders import Export
from keywright.search.filters import Order, Search
from tests.makers import NOW

DATABASES = ("sqlite",)

#: Searches and their descriptions.
WORDS: list[tuple[Search, str]] = [
    (Search(), "All licenses"),
    (Search(order=Order.EXPIRES), "All licenses"),
    (Search(status=5, product_id=7), "Licenses: disabled, product 7"),
    (Search(customer_id=8, order_id=9), "Licenses: customer 8, order 9"),
    (Search(order_ref="A-7"), "Licenses: order A-7"),
    (Search(expiring_within_days=1), "Licenses: expiring within 1 day"),
    (Search(is_expired=True), "Licenses: expired"),
    (Search(expires=(NOW, None)), "Licenses: expiring after Jan 15, 2026, 12:30:45 PM UTC"),
    (Search(expires=(None, NOW)), "Licenses: expiring before Jan 15, 2026, 12:30:45 PM UTC"),
    (Search(created=(NOW, None)), "Licenses: created after Jan 15, 2026, 12:30:45 PM UTC"),
    (Search(created=(None, NOW)), "Licenses: created before Jan 15, 2026, 12:30:45 PM UTC"),
    (Search(updated=(NOW, None)), "Licenses: changed after Jan 15, 2026, 12:30:45 PM UTC"),
    (Search(external_id="crm-9"), "Licenses: external ID crm-9"),
    (Search(unseen_for_days=90), "Licenses: not seen for 90 days"),
    (Search(policy_id=3, tag="old"), "Licenses: policy 3, tag old"),
    (Search(made_by=4), "Licenses: made by API key 4"),
    (Search(made_by_user=6), "Licenses: made by user 6"),
    (Search(job_id=5), "Licenses: made or changed by job 5"),
    (Search(is_full=True, is_unused=True), "Licenses: full, never activated"),
    (Search(term="lanna", is_prefix=True), "Licenses: found by a search"),
    (Search(license_id=1), "Licenses: found by a search"),
]


@pytest.mark.parametrize(("search", "words"), WORDS)
def test_every_condition_is_said(storage: Storage, search: Search, words: str) -> None:
    said = run_read(storage, lambda tx: scope_of(tx, Export(search=search)))
    assert said.replace("\u202f", " ") == words


def test_there_are_words_for_every_field_of_a_search() -> None:
    usual = Search()
    said = {
        name
        for search, _ in WORDS
        for name in Search.__struct_fields__
        if getattr(search, name) != getattr(usual, name)
    }
    assert said == set(Search.__struct_fields__)
