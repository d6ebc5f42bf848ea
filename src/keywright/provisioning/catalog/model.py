"""Kinds of names."""

from enum import StrEnum


class NameKind(StrEnum):
    """What the numbers of a vendor's shop can be given names for."""

    PRODUCT = "product"
    CUSTOMER = "customer"
