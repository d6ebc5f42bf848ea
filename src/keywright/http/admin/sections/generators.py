"""Generators: recipes for license keys, with keys that show what each makes.

Everybody may look. Who may change licenses may have a generator make some; the recipes themselves are an
administrator's, because a weak one makes keys that can be guessed.
"""

from datetime import datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import GeneratorTooWeak, InvalidParameters
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.pages.error_messages import counted, message_for
from keywright.http.pages.inputs import Inputs, number_of
from keywright.http.pages.once import Landing, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.jobs import orders
from keywright.jobs.orders import MAX_GENERATED, Generate
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import Status, parse_status
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.generators import handlers as generating
from keywright.provisioning.generators import rules
from keywright.provisioning.generators import store as generator_store
from keywright.provisioning.generators.commands import CreateGenerator, DeleteGenerator, UpdateGenerator
from keywright.provisioning.generators.model import Generator

_EXAMPLES = 5
_MAX_TEXT = 255
#: Above this many bits, keys are called very good.
_VERY_GOOD_BITS = 128.0
#: What a new generator begins as: keys of 150 bits.
_FIRST: dict[str, Any] = {
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
#: Characters that are offered; all others may be typed.
CHARSETS = {
    keys.UNAMBIGUOUS: "letters and digits that cannot be taken for one another",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789": "all capital letters and digits",
    "0123456789ABCDEF": "hexadecimal digits",
    "0123456789": "digits",
}


class Strength(NamedTuple):
    """How hard keys are to guess: ``bits``, a ``word`` for that, and the ``tone`` it is shown in."""

    bits: float
    word: str
    tone: str


class Sample(NamedTuple):
    """What a generator makes."""

    keys: tuple[str, ...]
    strength: Strength


class Generators(Section):
    """Recipes for license keys, and making licenses with them."""

    label = "Generators"
    path = "/generators"
    icon = "dice"
    right = Right.LOOK

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """Every generator, and what its keys look like."""
        found = request.ask(generator_store.list_generators)
        shown = [(one, sample(one, amount=1)) for one in found]
        return request.render("generators/list.html", generators=shown)

    @page("/new", methods=("GET", "POST"), right=Right.ADMINISTER)
    def create(self, request: PageRequest) -> Response:
        """Make a generator."""
        inputs = Inputs(request.form)
        values = _read(inputs) if request.is_post else _FIRST
        drawn = _drawn(inputs, values, request.now)
        if not _is_to_be_saved(request, inputs, drawn):
            return _form(request, inputs, values, drawn, None)
        is_weak_allowed = inputs.ticked("is_weak_allowed")
        command = CreateGenerator(context=request.context, **values, is_weak_allowed=is_weak_allowed)
        landing = Landing("/generators", f"The generator {values['name']} is made.")
        return change_once(request, command, lambda _: landing)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.ADMINISTER)
    def edit(self, request: PageRequest) -> Response:
        """Change a generator; licenses that it has made stay as they are."""
        generator, inputs = _get(request), Inputs(request.form)
        before = {name: getattr(generator, name) for name in _FIRST}
        values = _read(inputs) if request.is_post else before
        drawn = _drawn(inputs, values, request.now)
        if not _is_to_be_saved(request, inputs, drawn):
            return _form(request, inputs, values, drawn, generator)
        changes = {name: value for name, value in values.items() if value != before[name]}
        if not changes:
            return request.redirect("/generators", f"The generator {generator.name} is as it was.")
        change = UpdateGenerator(
            context=request.context,
            generator_id=generator.id,
            changes=changes,
            is_weak_allowed=inputs.ticked("is_weak_allowed"),
        )
        request.change(change)
        return request.redirect("/generators", f"The generator {values['name']} is changed.")

    @page("/preview", methods=("POST",), right=Right.ADMINISTER)
    def preview(self, request: PageRequest) -> Response:
        """Keys as the form would have them made, for the program in the browser."""
        inputs = Inputs(request.form)
        drawn = _drawn(inputs, _read(inputs), request.now)
        return request.render("generators/preview.html", drawn=drawn)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.ADMINISTER)
    def delete(self, request: PageRequest) -> Response:
        """Delete a generator."""
        generator = _get(request)
        if request.is_post:
            request.change(DeleteGenerator(context=request.context, generator_id=generator.id))
            return request.redirect("/generators", f"The generator {generator.name} is deleted.")
        return request.confirm(
            f"Delete the generator {generator.name}?",
            ["The licenses that it has made stay, and stay good.", "A job that still uses it will fail."],
            button="Delete",
            back="/generators",
        )

    @page("/{id:number}/generate", methods=("GET", "POST"), right=Right.CHANGE)
    def generate(self, request: PageRequest) -> Response:
        """Have licenses made, however many: a job does it."""
        generator, inputs = _get(request), Inputs(request.form)
        if request.is_post:
            order = _order(inputs, generator)
            if not inputs.errors:
                verb = "is" if order.amount == 1 else "are"
                said = f"{counted(order.amount, 'license')} {verb} being made."
                command = orders.start_command(order, context=request.context)
                return change_once(request, command, lambda job: Landing(f"/jobs/{job.id}", said))
        return request.render(
            "generators/generate.html",
            status=422 if inputs.errors else 200,
            generator=generator,
            drawn=sample(generator, amount=1),
            errors=inputs.errors,
            statuses=[(one.name.lower(), one.name.capitalize()) for one in Status],
            most=MAX_GENERATED,
            products=request.ask(lambda tx: suggest_names(tx, NameKind.PRODUCT)),
            customers=request.ask(lambda tx: suggest_names(tx, NameKind.CUSTOMER)),
        )


def sample(generator: Generator, *, amount: int) -> Sample:
    """So many keys of a generator, and how hard they are to guess."""
    drawn = tuple(rules.generate_key(generator) for _ in range(amount))
    return Sample(drawn, strength_of(generator))


def strength_of(generator: Generator) -> Strength:
    """How hard a generator's keys are to guess."""
    bits = rules.entropy_bits(generator.charset, generator.chunks, generator.chunk_length)
    if bits < rules.MIN_ENTROPY_BITS:
        return Strength(bits, "weak", "bad")
    if bits < _VERY_GOOD_BITS:
        return Strength(bits, "good", "good")
    return Strength(bits, "very good", "good")


def _get(request: PageRequest) -> Generator:
    """The generator that the address names. Raises ``UnknownGenerator``."""
    number = number_of(request.path_params["id"])
    return request.ask(lambda tx: generating.get_generator(tx, number))


def _text(text: str) -> str | None:
    return parsing.parse_text(text, _MAX_TEXT)


def _count(text: str) -> int | None:
    try:
        number = parsing.parse_integer(text, parsing.MAX_COUNT)
    except ValueError:
        number = 0
    if not number:
        raise ValueError(f"must be a whole number from 1 to {parsing.MAX_COUNT}")
    return number


def _read(inputs: Inputs) -> dict[str, Any]:
    """The form's fields, by the names they have in ``Generator``."""
    return {
        "name": inputs.need("name", _text, ""),
        "charset": inputs.need("charset", _text, "", is_trimmed=False),
        "chunks": inputs.need("chunks", _count, 0),
        "chunk_length": inputs.need("chunk_length", _count, 0),
        **{name: inputs.read(name, _text, is_trimmed=False) for name in ("separator", "prefix", "suffix")},
        "times_activated_max": inputs.read("times_activated_max", parsing.parse_limit),
        "expires_in_days": inputs.read("expires_in_days", parsing.parse_days),
    }


def _drawn(inputs: Inputs, values: dict[str, Any], now: datetime) -> Sample | None:
    """Keys of the recipe, weak or not; None, and why in the errors, where it makes none."""
    if inputs.errors.keys() - {"name"}:
        return None
    recipe = Generator(**values, id=0, created_at=now, created_by=None, updated_at=now, updated_by=None)
    try:
        generating.require_sound(recipe, is_weak_allowed=True)
    except InvalidParameters as error:
        inputs.errors |= {name: f"The {reason}." for name, reason in error.reasons.items()}
        return None
    return sample(recipe, amount=_EXAMPLES)


def _is_to_be_saved(request: PageRequest, inputs: Inputs, drawn: Sample | None) -> bool:
    """Whether the form is to be saved as it is. Weak keys have to be wanted."""
    if not request.is_post:
        return False
    if "preview" in request.form:
        inputs.errors.pop("name", None)
        return False
    is_weak = drawn is not None and drawn.strength.bits < rules.MIN_ENTROPY_BITS
    if drawn is not None and is_weak and not inputs.ticked("is_weak_allowed"):
        inputs.errors["is_weak_allowed"] = message_for(GeneratorTooWeak(drawn.strength.bits)).sentence
    return not inputs.errors


def _form(
    request: PageRequest,
    inputs: Inputs,
    values: dict[str, Any],
    drawn: Sample | None,
    generator: Generator | None,
) -> Response:
    typed = {name: request.form.raw(name) for name in values} if request.is_post else values
    return request.render(
        "generators/edit.html",
        status=422 if inputs.errors else 200,
        generator=generator,
        values=typed,
        is_weak_allowed=inputs.ticked("is_weak_allowed"),
        errors=inputs.errors,
        drawn=drawn,
        charsets=CHARSETS,
    )


def _order(inputs: Inputs, generator: Generator) -> Generate:
    return Generate(
        generator_id=generator.id,
        amount=inputs.need("amount", _amount, 1),
        status=inputs.need("status", parse_status, Status.ACTIVE),
        order_id=inputs.read("order_id", parsing.parse_integer),
        product_id=inputs.read("product_id", parsing.parse_integer),
        customer_id=inputs.read("customer_id", parsing.parse_integer),
    )


def _amount(text: str) -> int | None:
    try:
        number = parsing.parse_integer(text.replace(",", ""), MAX_GENERATED)
    except ValueError:
        number = 0
    if not number:
        raise ValueError(f"must be a whole number from 1 to {MAX_GENERATED:,}")
    return number
