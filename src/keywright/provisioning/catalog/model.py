"""Kinds of names."""

from enum import StrEnum


class NameKind(StrEnum):
    """A kind of number in the vendor's shop that can be given a name."""

    PRODUCT = "product"
    CUSTOMER = "customer"
