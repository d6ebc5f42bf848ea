"""The handlers of calls about generators: each reads the call, executes a command or query, and answers."""

from collections.abc import Mapping
from typing import Any

from keywright.core import errors as e
from keywright.core import parsing
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call
from keywright.http.v2 import parameters, wire
from keywright.http.v2.parameters import MAX_GENERATED, MAX_TEXT_LENGTH
from keywright.licensing.licenses.model import Status, parse_status
from keywright.provisioning.policies import model as policy_model

_REQUIRED = ("name", "charset", "chunks", "chunk_length")
_TEXTS = ("separator", "prefix", "suffix")
#: Names of fields that differ from their names on the wire.
_FIELDS = {"user_id": "customer_id"}
#: The parameters that are terms of a policy.
_TERMS = {"times_activated_max": "max_activations", "expires_in": "valid_for_days"}


async def list_generators(call: Call) -> Answer:
    """List generators.

    All of them, the oldest first.
    """
    answer = await call.desk.query(policy_model.ListPolicies(only_product_id=call.only_product_id), call)
    if not answer:
        raise e.NoPolicies
    return Answer(200, wire.generators(answer))


async def get_generator(call: Call) -> Answer:
    """Get a generator.

    Returns one generator.
    """
    query = policy_model.GetPolicy(policy_id=_number(call), only_product_id=call.only_product_id)
    return await call.ask(query, wire.generator)


async def create_generator(call: Call) -> Answer:
    """Create a generator.

    `name`, `charset`, `chunks` and `chunk_length` are required, in the body or the query. The keys it makes
    may have at most 255 characters.
    """
    asked = call.parameters
    for name in _REQUIRED:
        if asked.get(name) in (None, ""):
            raise e.PolicyFieldMissing(name)
    values = _values(asked)
    terms = _terms(values)
    command = policy_model.CreatePolicy(
        context=call.context,
        is_weak_allowed=True,
        only_product_id=call.only_product_id,
        terms=terms,
        **values,
    )
    return await call.change(command, wire.generator)


async def update_generator(call: Call) -> Answer:
    """Change a generator.

    Changes only the given fields. PUT, PATCH and POST are equivalent. Existing licenses remain as they are.
    """
    number = _number(call)
    changes = _values(call.parameters)
    if not changes:
        raise e.NothingToChange
    command = policy_model.UpdatePolicy(
        context=call.context,
        policy_id=number,
        terms=_terms(changes),
        changes=changes,
        only_product_id=call.only_product_id,
        is_weak_allowed=True,
    )
    return await call.change(command, wire.generator)


async def delete_generator(call: Call) -> Answer:
    """Delete a generator.

    The licenses that it created remain.
    """
    command = policy_model.DeletePolicy(
        context=call.context, policy_id=_number(call), only_product_id=call.only_product_id
    )
    return await call.change(command, wire.nothing)


async def generate(call: Call) -> Answer:
    """Generate licenses.

    Creates `amount` licenses with new keys, all or none.
    """
    number = _number(call)
    given = parameters.read(call.parameters, _GENERATE_PARSERS)
    if "amount" not in given:
        raise e.InvalidParameters({"amount": _AMOUNT_REASON})
    parameters.require_own_product(call, given)
    command = policy_model.GenerateLicenses(
        context=call.context,
        policy_id=number,
        only_product_id=call.only_product_id,
        **{"status": Status.ACTIVE} | {_FIELDS.get(name, name): value for name, value in given.items()},
    )
    return await call.change(command, wire.licenses_alone)


_AMOUNT_REASON = f"must be an integer from 1 to {MAX_GENERATED}"


def _amount(value: object) -> int:
    number = parsing.parse_integer(value)
    if number is None or not 1 <= number <= MAX_GENERATED:
        raise ValueError(_AMOUNT_REASON)
    return number


_GENERATE_PARSERS: dict[str, Any] = {
    "amount": _amount,
    "status": parse_status,
    "order_id": parsing.parse_integer,
    "product_id": parsing.parse_integer,
    "user_id": parsing.parse_integer,
}


def _number(call: Call) -> int:
    """The generator's ID in the path. Raises ``UnknownPolicy`` for other text."""
    number = None
    if call.key.isascii() and call.key.isdigit() and len(call.key) < 19:
        number = int(call.key)
    if number is None:
        raise e.UnknownPolicy(call.key)
    return number


def _values(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields, under their names in ``Generator``."""
    values: dict[str, Any] = {}
    for name in ("name", "charset"):
        if name in asked:
            values[name] = _require_text(name, asked[name])
    for name in ("chunks", "chunk_length"):
        if name in asked:
            values[name] = _absolute(name, asked[name])
    if "times_activated_max" in asked:
        values["times_activated_max"] = _limit(asked["times_activated_max"])
    values |= parameters.read(asked, _OPTIONAL_PARSERS)
    return values


def _terms(values: dict[str, Any]) -> dict[str, Any]:
    """Remove the terms from the fields, and return them. Over v2, days count from the first activation."""
    terms = {name: values.pop(field) for field, name in _TERMS.items() if field in values}
    if terms.get("valid_for_days") is not None:
        terms["starts"] = "first_activation"
    return terms


_OPTIONAL_PARSERS: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, lambda value: parsing.parse_text(value, MAX_TEXT_LENGTH)),
    "expires_in": parsing.parse_days,
}


def _require_text(name: str, value: object) -> str:
    try:
        text = parsing.parse_text(value, MAX_TEXT_LENGTH)
    except ValueError:
        text = None
    if text is None or not text.strip():
        raise e.PolicyFieldInvalid(name)
    return text


def _absolute(name: str, value: object) -> int:
    try:
        number = parsing.parse_integer(value, parsing.MAX_COUNT)
    except ValueError:
        number = None
    if not number:
        raise e.PolicyFieldNotInteger(name)
    return number


def _limit(value: object) -> int | None:
    try:
        return parsing.parse_limit(value)
    except ValueError:
        raise e.PolicyFieldNotInteger("times_activated_max") from None
