"""Messages of jobs are shown in the reader's language."""

from pathlib import Path

import keywright
from keywright.http.admin.job_text import REASONS, SENTENCES, explain_line, translate_message
from keywright.http.pages.formats import Languages, speaking
from keywright.jobs import handlers, orders
from tests.tables import each_row

CATALOGS = Path(keywright.__file__).parent / "http" / "admin" / "locale"


def test_every_reason_for_which_a_job_leaves_a_license_alone_is_a_text() -> None:
    assert {*REASONS} == {*orders._REASONS.values(), handlers._MATCHES_NO_LONGER}


@each_row(
    "line",
    [
        *SENTENCES,
        *(f"License 5: {reason}." for reason in REASONS),
        "License 5: it has been changed since (status).",
        "License 5: it was set by hand (max activations).",
        "Line 7: license_key is missing.",
        "Line 7: status must be sold, delivered, active, inactive or disabled.",
        "Line 7: order_id must be an integer from 0 to 9,007,199,254,740,991.",
        "olga was disabled.",
        "olga may no longer change licenses.",
    ],
)
def test_what_a_job_says_is_translated(line: str) -> None:
    with speaking(Languages(CATALOGS).choose("de", "")):
        said = translate_message(line)
    assert said != line
    assert not {"it", "is", "must", "the", "Line", "License"} & {*said.split()}


def test_what_is_not_known_is_said_as_it_is() -> None:
    assert translate_message("Something else happened.") == "Something else happened."
    assert explain_line("activations: a token appears twice") == "activations: a token appears twice"
