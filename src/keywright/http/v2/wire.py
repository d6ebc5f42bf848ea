"""The wire format of v2: which fields, in which order, under which names, as which JSON types.

Licenses and generators are written in camelCase, activations in snake_case; moments are
``YYYY-MM-DD HH:MM:SS`` in UTC. What is written here is whole answers: the envelope included.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from keywright.core.parsing import write_time
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import remaining_activations
from keywright.provisioning.generators.model import Generator

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


class ActivationOut(msgspec.Struct, gc=False):
    """An activation, as it is written."""

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, str] | None
    created_at: str
    updated_at: str | None
    deactivated_at: str | None


class LicenseOut(msgspec.Struct, rename="camel", gc=False):
    """A license, as it is written; what is unset is left out."""

    id: int
    order_id: int | None
    product_id: int | None
    user_id: int | None
    license_key: str
    expires_at: str | None
    valid_for: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: str
    created_by: int | UnsetType
    updated_at: str
    updated_by: int | UnsetType | None
    remaining_activations: int | UnsetType | None
    activation_data: ActivationOut | list[ActivationOut] | UnsetType


class GeneratorOut(msgspec.Struct, rename="camel"):
    """A generator, as it is written. Typed clients of the format read four of its numbers as texts."""

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: str | None
    separator: str | None
    prefix: str | None
    suffix: str | None
    expires_in: str | None
    created_at: str
    created_by: str | None
    updated_at: str
    updated_by: str | None


#: How many licenses of a list are written at once.
_FEW = 10


def success(data: object) -> bytes:
    """A whole answer of success."""
    return b'{"success":true,"data":%b}' % encode(data)


def one_activation(record: LicenseRecord) -> bytes:
    """The answer to activate, reactivate, and deactivate with a token."""
    activation = _activation(record.activations[0])
    return success(_license(record.license, activation, has_authors=False))


def many_activations(record: LicenseRecord) -> bytes:
    """The answer to deactivate without a token."""
    activations = [_activation(one) for one in record.activations]
    return success(_license(record.license, activations, has_authors=False))


def validation(record: LicenseRecord) -> bytes:
    """The answer to validate."""
    written = _with_activations(record)
    written.remaining_activations = remaining_activations(record.license)
    return success(written)


def license_with_activations(record: LicenseRecord) -> bytes:
    """The answer to get."""
    return success(_with_activations(record))


def license_alone(record: LicenseRecord) -> bytes:
    """The answer to create and update."""
    return success(_license(record.license))


def licenses_alone(records: Sequence[LicenseRecord]) -> bytes:
    """The answer to generate."""
    return success([_license(one.license) for one in records])


def licenses_with_activations(records: Sequence[LicenseRecord]) -> bytes:
    """One page of a list."""
    return b'{"success":true,"data":[%b]}' % some_licenses(records)


def some_licenses(records: Sequence[LicenseRecord]) -> bytes:
    """Some of a list's licenses, comma-separated, without brackets: a piece of an answer.

    They are written a few at a time: a thread that writes very many at once keeps the others waiting.
    """
    few = (records[start : start + _FEW] for start in range(0, len(records), _FEW))
    return b",".join(encode([_with_activations(one) for one in some])[1:-1] for some in few)


def generator(one: Generator) -> bytes:
    """The answer about one generator."""
    return success(_generator(one))


def generators(many: Sequence[Generator]) -> bytes:
    """The answer to list generators."""
    return success([_generator(one) for one in many])


def nothing(_outcome: object) -> bytes:
    """The answer to delete."""
    return b'{"success":true,"data":[]}'


# The moments of many records are the same; see storage.rows.moment.
_text = lru_cache(maxsize=8192)(write_time)


def _optional_text(moment: datetime | None) -> str | None:
    return None if moment is None else _text(moment)


def _digits(number: int | None) -> str | None:
    return None if number is None else str(number)


def _license(
    one: License,
    activation_data: ActivationOut | list[ActivationOut] | UnsetType = UNSET,
    *,
    has_authors: bool = True,
) -> LicenseOut:
    return LicenseOut(
        one.id,
        one.order_id,
        one.product_id,
        one.user_id,
        one.key,
        _optional_text(one.expires_at),
        one.valid_for_days,
        one.source,
        one.status,
        one.times_activated,
        one.times_activated_max,
        _text(one.created_at),
        (one.created_by or 0) if has_authors else UNSET,
        _text(one.updated_at),
        one.updated_by if has_authors else UNSET,
        UNSET,
        activation_data,
    )


def _with_activations(record: LicenseRecord) -> LicenseOut:
    return _license(record.license, [_activation(one) for one in record.activations])


def _activation(one: Activation) -> ActivationOut:
    return ActivationOut(
        one.id,
        one.token,
        one.license_id,
        one.label,
        one.source,
        one.ip_address,
        one.user_agent,
        one.meta_data,
        _text(one.created_at),
        _optional_text(one.updated_at),
        _optional_text(one.deactivated_at),
    )


def _generator(one: Generator) -> GeneratorOut:
    return GeneratorOut(
        one.id,
        one.name,
        one.charset,
        one.chunks,
        one.chunk_length,
        _digits(one.times_activated_max),
        one.separator,
        one.prefix,
        one.suffix,
        _digits(one.expires_in_days),
        _text(one.created_at),
        _digits(one.created_by),
        _text(one.updated_at),
        _digits(one.updated_by),
    )
