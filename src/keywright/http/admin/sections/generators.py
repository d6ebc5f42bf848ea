"""Generators: recipes for license keys, with example keys.

Every user may see them. Users who may change licenses may generate licenses; only administrators may change a
generator, because a weak one makes keys that can be guessed.
"""

from datetime import datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import GeneratorTooWeak, InvalidParameters
from keywright.core.parsing import format_count
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.inputs import Inputs, parse_positive, require_id
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.jobs import orders
from keywright.jobs.orders import MAX_GENERATED, Generate
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import Status, parse_status
from keywright.provisioning.generators import handlers as generating
from keywright.provisioning.generators import rules
from keywright.provisioning.generators import store as generator_store
from keywright.provisioning.generators.commands import CreateGenerator, DeleteGenerator, UpdateGenerator
from keywright.provisioning.generators.model import Generator

_EXAMPLES = 5
_MAX_TEXT = 255
#: From this many bits, keys are called very good.
_VERY_GOOD_BITS = 128.0
#: The values of a new generator: keys of 150 bits.
_DEFAULTS: dict[str, Any] = {
    "name": "",
    "charset": keys.UNAMBIGUOUS,
    "chunks": 6,
    "chunk_length": 5,
    "separator": "-",
    "prefix": None,
    "suffix": None,
    "times_activated_max": None,
    "expires_in_days": None,
}
#: Sets of characters that the form suggests.
CHARSETS = {
    keys.UNAMBIGUOUS: "letters and digits that do not look alike",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789": "all capital letters and digits",
    "0123456789ABCDEF": "hexadecimal digits",
    "0123456789": "digits",
}


class Strength(NamedTuple):
    """The strength of keys against guessing: ``bits``, a word, and the tone in which the page shows it."""

    bits: float
    word: str
    tone: str


class Sample(NamedTuple):
    """Example keys of a generator."""

    keys: tuple[str, ...]
    strength: Strength


class Generators(Section):
    """The generators, and licenses made with them."""

    label = "Generators"
    path = "/generators"
    icon = "dice"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All generators, each with an example key."""
        generators = request.ask(generator_store.list_generators)
        samples = [(one, make_sample(one, amount=1)) for one in generators]
        return request.render("generators/list.html", generators=samples)

    @page("/new", methods=("GET", "POST"), right=Right.ADMINISTER)
    def create(self, request: PageRequest) -> Response:
        """Create a generator."""
        inputs = Inputs(request.form)
        values = _read_values(inputs) if request.is_post else _DEFAULTS
        sample = _try_recipe(inputs, values, request.now)
        if not _can_save(request, inputs, sample):
            return _render_form(request, inputs, values, sample, None)
        is_weak_allowed = inputs.is_checked("is_weak_allowed")
        command = CreateGenerator(context=request.context, **values, is_weak_allowed=is_weak_allowed)
        redirect = Redirect("/generators", f"The generator {values['name']} is created.")
        return change_once(request, command, lambda _: redirect)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.ADMINISTER)
    def edit(self, request: PageRequest) -> Response:
        """Change a generator; its licenses do not change."""
        generator, inputs = _get(request), Inputs(request.form)
        before = {name: getattr(generator, name) for name in _DEFAULTS}
        values = _read_values(inputs) if request.is_post else before
        sample = _try_recipe(inputs, values, request.now)
        if not _can_save(request, inputs, sample):
            return _render_form(request, inputs, values, sample, generator)
        changes = {name: value for name, value in values.items() if value != before[name]}
        if not changes:
            return request.redirect("/generators", f"The generator {generator.name} is unchanged.")
        change = UpdateGenerator(
            context=request.context,
            generator_id=generator.id,
            changes=changes,
            is_weak_allowed=inputs.is_checked("is_weak_allowed"),
        )
        request.change(change)
        return request.redirect("/generators", f"The generator {values['name']} is changed.")

    @page("/preview", methods=("POST",), right=Right.ADMINISTER)
    def preview(self, request: PageRequest) -> Response:
        """Example keys for the values in the form; requested by admin.js."""
        inputs = Inputs(request.form)
        sample = _try_recipe(inputs, _read_values(inputs), request.now)
        return request.render("generators/preview.html", sample=sample)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.ADMINISTER)
    def delete(self, request: PageRequest) -> Response:
        """Delete a generator."""
        generator = _get(request)
        if request.is_post:
            request.change(DeleteGenerator(context=request.context, generator_id=generator.id))
            return request.redirect("/generators", f"The generator {generator.name} is deleted.")
        return request.confirm(
            f"Delete the generator {generator.name}?",
            ["Licenses that it has made stay valid.", "A job that still uses it will fail."],
            button="Delete",
            back="/generators",
        )

    @page("/{id:number}/generate", methods=("GET", "POST"), right=Right.CHANGE)
    def generate(self, request: PageRequest) -> Response:
        """Start a job that makes licenses."""
        generator, inputs = _get(request), Inputs(request.form)
        if request.is_post:
            order = _read_order(inputs, generator)
            if not inputs.errors:
                verb = "is" if order.amount == 1 else "are"
                message = f"{format_count(order.amount, 'license')} {verb} being made."
                command = orders.start_command(order, context=request.context)
                return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}", message))
        return request.render(
            "generators/generate.html",
            generator=generator,
            sample=make_sample(generator, amount=1),
            errors=inputs.errors,
            statuses=[(one.name.lower(), one.name.capitalize()) for one in Status],
            max_amount=MAX_GENERATED,
            suggestions=request.ask(suggest_names),
        )


def make_sample(generator: Generator, *, amount: int) -> Sample:
    """Example keys of a generator, and their strength."""
    keys = tuple(rules.generate_key(generator) for _ in range(amount))
    return Sample(keys, measure_strength(generator))


def measure_strength(generator: Generator) -> Strength:
    """The strength of a generator's keys against guessing."""
    bits = rules.entropy_bits(generator.charset, generator.chunks, generator.chunk_length)
    if bits < rules.MIN_ENTROPY_BITS:
        return Strength(bits, "weak", "bad")
    if bits < _VERY_GOOD_BITS:
        return Strength(bits, "good", "good")
    return Strength(bits, "very good", "good")


def _get(request: PageRequest) -> Generator:
    """The generator in the address. Raises ``UnknownGenerator``."""
    number = require_id(request.path_params["id"])
    return request.ask(lambda tx: generating.get_generator(tx, number))


def _parse_text(text: str) -> str | None:
    return parsing.parse_text(text, _MAX_TEXT)


def _read_values(inputs: Inputs) -> dict[str, Any]:
    """The values in the form, by the names of the fields of ``Generator``."""
    return {
        "name": inputs.require("name", _parse_text, ""),
        "charset": inputs.require("charset", _parse_text, "", is_trimmed=False),
        "chunks": inputs.require("chunks", parse_positive, 0),
        "chunk_length": inputs.require("chunk_length", parse_positive, 0),
        "separator": inputs.read("separator", _parse_text, is_trimmed=False),
        "prefix": inputs.read("prefix", _parse_text, is_trimmed=False),
        "suffix": inputs.read("suffix", _parse_text, is_trimmed=False),
        "times_activated_max": inputs.read("times_activated_max", parsing.parse_limit),
        "expires_in_days": inputs.read("expires_in_days", parsing.parse_days),
    }


def _try_recipe(inputs: Inputs, values: dict[str, Any], now: datetime) -> Sample | None:
    """Example keys for these values, however weak; None, with messages in the errors, if they make none."""
    if inputs.errors.keys() - {"name"}:
        return None
    recipe = Generator(**values, id=0, created_at=now, created_by=None, updated_at=now, updated_by=None)
    try:
        generating.require_sound(recipe, is_weak_allowed=True)
    except InvalidParameters as error:
        inputs.errors |= {name: f"The {reason}." for name, reason in error.reasons.items()}
        return None
    return make_sample(recipe, amount=_EXAMPLES)


def _can_save(request: PageRequest, inputs: Inputs, sample: Sample | None) -> bool:
    """Whether to save the form. Weak keys must be confirmed."""
    if not request.is_post:
        return False
    if "preview" in request.form:
        inputs.errors.pop("name", None)
        return False
    is_weak = sample is not None and sample.strength.bits < rules.MIN_ENTROPY_BITS
    if sample is not None and is_weak and not inputs.is_checked("is_weak_allowed"):
        inputs.errors["is_weak_allowed"] = message_for(GeneratorTooWeak(sample.strength.bits)).sentence
    return not inputs.errors


def _render_form(
    request: PageRequest,
    inputs: Inputs,
    values: dict[str, Any],
    sample: Sample | None,
    generator: Generator | None,
) -> Response:
    texts = {name: request.form.raw(name) for name in values} if request.is_post else values
    return request.render(
        "generators/edit.html",
        generator=generator,
        values=texts,
        is_weak_allowed=inputs.is_checked("is_weak_allowed"),
        errors=inputs.errors,
        sample=sample,
        charsets=CHARSETS,
    )


def _read_order(inputs: Inputs, generator: Generator) -> Generate:
    return Generate(
        generator_id=generator.id,
        amount=inputs.require("amount", _parse_amount, 1),
        status=inputs.require("status", parse_status, Status.ACTIVE),
        order_id=inputs.read("order_id", parsing.parse_integer),
        product_id=inputs.read("product_id", parsing.parse_integer),
        customer_id=inputs.read("customer_id", parsing.parse_integer),
    )


def _parse_amount(text: str) -> int:
    return parse_positive(text.replace(",", ""), MAX_GENERATED)
