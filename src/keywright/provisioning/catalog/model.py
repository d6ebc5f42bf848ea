"""Kinds of names."""

from enum import StrEnum


class NameKind(StrEnum):
    """The kinds of numbers of a vendor's shop that can have names."""

    PRODUCT = "product"
    CUSTOMER = "customer"
