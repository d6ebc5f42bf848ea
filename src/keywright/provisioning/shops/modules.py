"""The modules of the shops, by shop."""

from collections.abc import Mapping

from keywright.provisioning.shops import generic, stripe
from keywright.provisioning.shops.model import Shop, ShopModule

MODULES: Mapping[Shop, ShopModule] = {
    Shop.STRIPE: stripe,
    Shop.GENERIC: generic,
}
