"""Activations, and licenses together with theirs."""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum

import msgspec

from keywright.licensing.licenses.model import License


class ActivationSource(IntEnum):
    """The origin of an activation. The numbers are the wire format's."""

    WEB = 1
    API = 2
    MIGRATION = 3


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One place taken on a license; given up while ``deactivated_at`` is set."""

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, str] | None
    created_at: datetime
    updated_at: datetime | None
    deactivated_at: datetime | None


class LicenseRecord(msgspec.Struct, frozen=True, gc=False):
    """A license together with the activations that an outcome is about."""

    license: License
    activations: tuple[Activation, ...] = ()


class RecordLimits(msgspec.Struct, frozen=True):
    """The limits on activations kept and shown: a license keeps at least ``kept`` of those that were given up
    (see ``rules.surplus``); an answer lists at most ``listed``.
    """

    kept: int = 100
    listed: int = 1000


class LicensePage(msgspec.Struct, frozen=True):
    """One page of a list; ``total`` counts all that match."""

    records: tuple[LicenseRecord, ...]
    total: int
