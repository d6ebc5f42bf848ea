"""What a shop does, with the client that openapi-python-client makes. SERVER and TOKEN are variables."""

import os

from generated.api.licenses import create_license, get_license, list_licenses, update_license
from generated.api.policies import create_policy
from generated.api.products import create_product
from generated.client import AuthenticatedClient
from generated.models import (
    License,
    LicenseChanges,
    Licenses,
    Metadata,
    NewLicense,
    NewPolicy,
    NewProduct,
    PageLicense,
    Policy,
    Problem,
    ProblemCode,
    Product,
    TermsPatch,
)

client = AuthenticatedClient(base_url=os.environ["SERVER"] + "/v3", token=os.environ["TOKEN"])

product = create_product.sync(client=client, body=NewProduct(name="Paint"))
assert isinstance(product, Product), product
terms = TermsPatch(max_activations=3, entitlements=["export"])
policy = create_policy.sync(client=client, body=NewPolicy(name="Yearly", product_id=product.id, terms=terms))
assert isinstance(policy, Policy), policy
made = create_license.sync(client=client, body=NewLicense(policy_id=policy.id, quantity=3))
assert isinstance(made, Licenses), made

page = list_licenses.sync(client=client, product_id=product.id, limit=2)
assert isinstance(page, PageLicense), page
found = page.items
while page.next_cursor is not None:
    page = list_licenses.sync(client=client, product_id=product.id, limit=2, cursor=page.next_cursor)
    assert isinstance(page, PageLicense), page
    found += page.items
assert {one.id for one in found} == {one.id for one in made.items}

changes = LicenseChanges(terms=TermsPatch(max_activations=5), metadata=Metadata.from_dict({"note": "gift"}))
changed = update_license.sync(found[0].id, client=client, body=changes)
assert isinstance(changed, License), changed
assert (changed.terms.max_activations, changed.metadata["note"]) == (5, "gift")

refused = get_license.sync(2**53, client=client)
assert isinstance(refused, Problem), refused
print(refused.status, refused.code is ProblemCode.NOT_FOUND)
