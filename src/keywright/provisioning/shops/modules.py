"""The modules of the shops, by shop."""

from collections.abc import Mapping

from keywright.provisioning.shops import generic, lemonsqueezy, paddle, stripe, woocommerce
from keywright.provisioning.shops.model import (
    Shop,
)
from keywright.provisioning.shops.shop_module import ShopModule

MODULES: Mapping[Shop, ShopModule] = {
    Shop.STRIPE: stripe,
    Shop.PADDLE: paddle,
    Shop.WOOCOMMERCE: woocommerce,
    Shop.LEMONSQUEEZY: lemonsqueezy,
    Shop.GENERIC: generic,
}
