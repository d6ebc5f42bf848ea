"""What was sold with a payment and its subscription, and what it should be: read in one transaction."""

from collections.abc import Callable, Collection

from keywright.db.transaction import ReadTransaction
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.model import License, LicenseCommand
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.policies.model import Policy
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.shops import sold_store
from keywright.provisioning.shops.line_rules import Resolve, list_lines
from keywright.provisioning.shops.model import MappedProduct, OnCancel
from keywright.provisioning.shops.sold_model import SoldLicense, SoldLine
from keywright.provisioning.shops.store import lock_connection
from keywright.provisioning.shops.unit_rules import Held, Unit, build_resolver, decide, plan


class Holding:
    """Reads what a connection has sold; each policy is read once."""

    def __init__(
        self,
        tx: ReadTransaction,
        connection_id: int,
        mapping: Collection[MappedProduct],
        find_license: Callable[[int], License | None],
    ) -> None:
        self._tx, self._connection_id, self._mapping = tx, connection_id, mapping
        self._find_license = find_license
        self._policies: dict[int, Policy | None] = {}

    def find_policy(self, policy_id: int) -> Policy | None:
        """The policy with this ID."""
        if policy_id not in self._policies:
            self._policies[policy_id] = find_policy(self._tx, policy_id)
        return self._policies[policy_id]

    def read_held(self, order: str | None, subscription: str | None) -> Held:
        """The lines and the licenses of the order, and of the subscription."""
        sold = sold_store.list_sold(self._tx, self._connection_id, order, subscription)
        lines = sold_store.list_lines(self._tx, self._connection_id, order, subscription)
        known = {(one.order, one.line) for one in lines}
        older = {
            (one.order, one.line): SoldLine(
                order=one.order,
                line=one.line,
                subscription=one.subscription,
                listed_in=one.order,
                listed_as=one.line,
                is_known=False,
            )
            for one in sold
        }
        lines += [one for key, one in older.items() if key not in known]
        return Held(lines, [self._unit_of(one) for one in sold if one.license_id])

    def resolver(self, held: Held, *, is_sold_now: bool = False) -> Resolve:
        """What lines make."""
        return build_resolver(self._mapping, held, self.find_policy, is_sold_now=is_sold_now)

    def _unit_of(self, sold: SoldLicense) -> Unit:
        license = self._find_license(sold.license_id)
        own = None if license is None else license.policy_id
        last = own if sold.policy_id is None else sold.policy_id
        return Unit(sold, license, self.find_policy(last or 0), self.find_policy(own or 0))


def apply_to_restored(work: LicenseWork, command: LicenseCommand, license: License) -> None:
    """Apply what shops have said of a license since it was deleted."""
    for connection_id, sold in sold_store.list_of_license(work.tx, license.id):
        # No event of the connection is worked on meanwhile.
        connection = lock_connection(work.tx, connection_id)
        known = sold_store.find_known(work.tx, connection_id, sold.order, sold.subscription)
        mapping = () if connection is None else connection.mapping
        holding = Holding(work.tx, connection_id, mapping, work.find_license)
        held = holding.read_held(sold.order, sold.subscription)
        on_cancel = OnCancel.PAID_UNTIL if connection is None else connection.on_cancel
        todo = plan(known, list_lines(known, holding.resolver(held)), held, on_cancel, command.context.now)
        for unit, aim in todo.aims:
            if unit.license is not None and unit.license.id == license.id:
                decided = decide(unit, unit.license, aim)
                changes = licenses.list_rule_changes(license, decided.changes, decided.written)
                licenses.change_by_rule(work, command, license, changes)
                sold_store.save_sold(work.tx, connection_id, [decided.sold])
