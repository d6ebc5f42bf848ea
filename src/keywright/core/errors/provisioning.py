"""Refusals about generators."""

from keywright.core.errors.root import V2, FieldRefusal, Refusal, v2_data_error


class UnknownGenerator(Refusal):
    """No generator has this number."""

    code = "generator.unknown"
    status = 404
    sentence = "There is no such generator. It may have been deleted."
    hint = "there is no generator {generator_id}. `keywright generator list` shows those there are."
    v2 = v2_data_error("Generator with ID: {generator_id} could not be found.")
    example = (7,)

    def __init__(self, generator_id: int | str) -> None:
        super().__init__(generator_id)
        self.generator_id = generator_id


class NoGenerators(Refusal):
    """There are no generators."""

    code = "generator.none"
    status = 404
    sentence = "There are no generators yet."
    hint = "there are no generators. Make one with `keywright generator create`."
    v2 = v2_data_error("No Generators available")


class GeneratorFieldMissing(FieldRefusal):
    """A new generator needs this field."""

    code = "generator.field_missing"
    sentence = "A generator needs its {field_in_words}."
    hint = "a generator needs a {field}."
    v2 = v2_data_error("The Generator {field_in_words} is missing from the request.")
    example = ("name",)


class GeneratorFieldInvalid(FieldRefusal):
    """The text is empty or too long."""

    code = "generator.field_invalid"
    sentence = "The generator's {field_in_words} cannot have this value."
    hint = "the generator's {field} cannot be used."
    v2 = v2_data_error("Generator {field} is invalid.")


class GeneratorFieldNotInteger(GeneratorFieldInvalid):
    """The value is not an integer, or out of range."""

    code = "generator.field_not_integer"
    sentence = "The generator's {field_in_words} must be a whole number."
    v2 = v2_data_error("Generator {field} must be an absolute integer.")
    example = ("chunks",)


class GeneratorTooWeak(Refusal):
    """The generator's keys could be guessed: they have under 64 bits of entropy.

    The caller may allow such keys.
    """

    code = "generator.too_weak"
    status = 422
    sentence = "These keys could be guessed: they have {bits:.0f} bits, and need at least 64."
    hint = (
        "its keys could be guessed: they have {bits:.0f} bits of randomness, and 64 is the least. "
        "Use more chunks or characters, or --force it."
    )
    v2 = V2(400, "rest_invalid_param", "Invalid parameter(s): charset, chunks, chunk_length")
    example = (40.0,)

    def __init__(self, bits: float) -> None:
        super().__init__(bits)
        self.bits = bits


class SourceUnusable(Refusal):
    """The file cannot be imported; the text says why, and in which line."""

    code = "import.source_unusable"
    status = 422
    sentence = "The file cannot be imported: {detail}"
    hint = "{detail}"
    v2 = None
    example = ("dump.sql, line 1: this is no database dump. Nothing was imported.",)

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
