"""Mail templates: built-in ones are complete in all languages, and a vendor's can do no harm."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from typing import Any

import pytest

from keywright.delivery.mail import html, letters, message, rules, sandbox
from keywright.delivery.mail.defaults import CODES, Source, built_in, choose_language
from keywright.delivery.mail.letters import Letter, MailSettings
from keywright.delivery.mail.message import build_envelope, compose, render_source
from keywright.delivery.mail.model import AttemptOutcome, Fate
from keywright.delivery.mail.sandbox import BadTemplate
from keywright.events.model import MailState, MailTemplate, OutboxMail
from keywright.provisioning.brand import Brand
from tests.makers import NOW
from tests.tables import each_row

SETTINGS = MailSettings("Example & Söhne", "https://keys.example.com", "en")
VALUES = letters.sample_values(SETTINGS, NOW)
ENGLISH = choose_language("en", "en")
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def say(source: str, *, is_html: bool = False, language: str = "en", **values: object) -> str:
    return sandbox.render(source, VALUES | values, language, is_html=is_html, is_strict=True)


@each_row("name", MailTemplate)
@each_row("code", CODES)
def test_every_built_in_template_renders_in_every_language(code: str, name: MailTemplate) -> None:
    language = choose_language(code, "en")
    composed = render_source(built_in(name, language), VALUES, language, Brand(), is_strict=True)
    # Locked telephones show the subject.
    assert composed.subject.replace(VALUES["code"], "") == composed.subject != ""
    assert f'<html lang="{code}">' in composed.html
    assert "{" not in composed.subject + composed.text
    if code != "en":
        assert composed.text != render_source(built_in(name, ENGLISH), VALUES, ENGLISH, Brand()).text


@pytest.mark.parametrize(("is_gone", "said"), [(True, "answered 410"), (False, "has failed for five days")])
def test_a_notice_says_why_an_endpoint_was_disabled(said: str, *, is_gone: bool) -> None:
    source = built_in(MailTemplate.ENDPOINT_DISABLED, choose_language("en", "en"))
    endpoint = {"id": 3, "url": "https://example.com", "page_url": None, "is_gone": is_gone}
    text = say(source.text, endpoint=endpoint)
    assert "It is endpoint 3." in text
    assert [one for one in ("answered 410", "has failed for five days") if one in text] == [said]


def test_there_are_six_languages_and_the_nearest_is_taken() -> None:
    assert set(CODES) == {"en", "de", "fr", "es", "pt-BR", "ja"}
    wanted = {"pt": "pt-BR", "pt_BR": "pt-BR", "de-AT": "de", "xx": "fr", "": "fr", None: "fr"}
    assert {one: choose_language(one, "fr").code for one in wanted} == wanted


def test_days_and_numbers_are_written_as_the_language_does() -> None:
    assert say("{{ expires_at|day }} {{ 1234|number }}", expires_at=DAY) == "March 1, 2026 1,234"
    german = say("{{ expires_at|day }} {{ 1234|number }}", language="de", expires_at=DAY)
    assert german == "1. März 2026 1.234"


def test_a_line_of_tags_alone_says_nothing() -> None:
    assert say("a\n{% if vendor %}\nb\n{% endif %}\nc {% if vendor %}d{% endif %}\ne") == "a\nb\nc d\ne"


@each_row(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ vendor.__class__ }}",
        "{{ vendor|attr('__class__') }}",
        "{{ licenses.append(1) }}",
        "{{ self }}",
        "{{ loop.__init__ }}",
        "{% for x in range(10) %}{% endfor %}",
        "{% set x = 1 %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% macro f() %}{% endmacro %}",
        "{{ 'a' * 1000000000 }}",
        "{{ 9 ** 99999999 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ 'a'|replace('a', 'aaaa') }}",
        "{{ vendor[0] }}",
        "{% for a in 'abc' %}{% endfor %}",
        "{% for a in licenses recursive %}{% endfor %}",
        "{% for a in licenses %}{% for b in licenses %}{% for c in licenses %}{% endfor %}{% endfor %}"
        "{% endfor %}",
        "(" * 10 + "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
        "x" * (sandbox.MAX_SOURCE + 1),
    ],
)
def test_a_template_can_do_nothing_but_show_its_values(source: str) -> None:
    with pytest.raises(BadTemplate):
        say(source)


def test_a_template_that_grows_is_broken_off() -> None:
    many = [VALUES["licenses"][0]] * letters.MAX_SHOWN
    body = "x" * 10_000
    with pytest.raises(BadTemplate, match="more than"):
        say(
            "{% for a in licenses %}{% for b in licenses %}" + body + "{% endfor %}{% endfor %}",
            licenses=many,
        )


@pytest.mark.parametrize(
    ("source", "line"),
    [("a\n{{ nothing }}", 2), ("a\nb\n{% if vendor %}", 3), ("\n\n{{ vendor|nothing }}", 3)],
)
def test_an_error_names_its_line(source: str, line: int) -> None:
    with pytest.raises(BadTemplate) as caught:
        say(source)
    assert caught.value.line == line


def test_values_are_escaped_in_html_and_not_in_text() -> None:
    assert say("{{ customer.name }}", is_html=True, customer={"name": "<b>"}) == "&lt;b&gt;"
    assert say("{{ customer.name }}", customer={"name": "<b>"}) == "<b>"
    assert "<script>" not in html.from_text("Hello <script>alert(1)</script>,")


def test_text_becomes_keys_and_buttons() -> None:
    body = html.from_text("Hello,\n\n    KEY-1\nfor you\n\nOpen it:\nhttps://example.com/a?b=1&c=2\n")
    assert '<p class="key"' in body
    assert 'href="https://example.com/a?b=1&amp;c=2"' in body
    assert ">Open it</a>" in body


def a_letter(**changes: object) -> Letter:
    source = built_in(MailTemplate.EXPIRING, ENGLISH)
    letter = Letter("dora@example.com", "Dora", ENGLISH, None, source, VALUES, Brand(), None)
    return letter._replace(**changes)  # type: ignore[arg-type]


def test_a_vendors_template_that_fails_is_replaced_by_the_built_in_one() -> None:
    own = Source("Mine", "{{ vendor + 1 }}")
    composed = compose(a_letter(own=own))
    assert composed.text == compose(a_letter()).text
    assert composed.problem is not None


def test_a_name_is_greeted_unless_it_has_a_link() -> None:
    for link in ("Win at https://evil.example", "WWW.evil.example", "see http://x"):
        assert rules.greetable_name(link) is None
    for name in ("Ada Lovelace", "Booking.com B.V.", "Miller/Smith: Co", None):
        assert rules.greetable_name(name) == name


def test_no_value_can_make_a_header() -> None:
    evil = "x\r\nBcc: eve@example.com\r\n\r\nbody"
    letter = a_letter(
        name=evil, own=Source("{{ customer.name }}", "text"), values=VALUES | {"customer": {"name": evil}}
    )
    letter = letter._replace(unsubscribe_url="https://keys.example.com/mail/unsubscribe/1/x")
    envelope = build_envelope(
        letter, compose(letter), mail_from="Example <a@example.com>", message_id="1", now=NOW
    )
    sent = message_from_bytes(envelope.message, policy=policy.default)
    assert sent["Bcc"] is None
    assert "Bcc: eve@example.com" in sent["Subject"]
    assert sent["List-Unsubscribe"] == "<https://keys.example.com/mail/unsubscribe/1/x>"
    assert sent["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert sent["Message-ID"] == "<1@example.com>"


def test_the_logo_is_a_part_of_the_mail_and_answers_go_to_the_vendor() -> None:
    """Nothing is loaded from elsewhere; a vendor's template without the frame gets no logo."""
    logo = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    brand = Brand(
        "Lumen", logo=b64encode(logo).decode(), logo_type="image/png", reply_to="help@lümen.example"
    )
    for own, has_logo in ((None, True), (Source("x", "text", "<!doctype html><p>own</p>"), False)):
        letter = a_letter(own=own)._replace(brand=brand)
        envelope = build_envelope(letter, compose(letter), mail_from="a@example.com", message_id="1", now=NOW)
        sent = message_from_bytes(envelope.message, policy=policy.default)
        assert sent["Reply-To"] == "help@xn--lmen-0ra.example"
        images = [one for one in sent.walk() if one.get_content_type() == "image/png"]
        assert [(one["Content-ID"], one.get_content()) for one in images] == [("<logo>", logo)] * has_logo
        page = sent.get_body(("html",))
        assert page is not None
        assert ('src="cid:logo"' in page.get_content()) is has_logo
        assert sent.get_body(("plain",)) is not None


@pytest.mark.parametrize("address", ["a b@example.com", "a@example.com\nBcc: x@y", "@", ""])
def test_an_odd_address_is_refused(address: str) -> None:
    letter = a_letter(address=address)
    with pytest.raises(ValueError, match="address"):
        message.build_envelope(letter, compose(letter), mail_from="a@example.com", message_id="1", now=NOW)


def a_mail(**fields: object) -> OutboxMail:
    """Create a mail that was not attempted."""
    usual: dict[str, Any] = dict.fromkeys(OutboxMail.__struct_fields__) | {
        **{"id": 1, "template": MailTemplate.EXPIRED, "message_id": "1", "state": MailState.WAITING},
        **{"attempts": 0, "unanswered": 0, "created_at": NOW, "next_attempt_at": NOW},
    }
    return OutboxMail(**usual | fields)


def attempts_until_end(mail: OutboxMail) -> tuple[OutboxMail, timedelta]:
    now = NOW
    while mail.state is MailState.WAITING:
        assert mail.next_attempt_at is not None
        now = mail.next_attempt_at
        mail = rules.after_attempt(mail, AttemptOutcome(Fate.DELAYED, "450 dora@example.com busy"), now)
    return mail, now - NOW


def test_a_mail_is_tried_for_three_days_and_a_code_for_its_quarter_of_an_hour() -> None:
    mail, tried_for = attempts_until_end(a_mail())
    assert (mail.state, mail.error) == (MailState.FAILED, "450 … busy")
    assert timedelta(days=2.5) < tried_for <= timedelta(days=3)
    code, tried_for = attempts_until_end(a_mail(template=MailTemplate.SIGN_IN_CODE))
    assert tried_for <= timedelta(minutes=15)
    assert code.attempts > 3


def test_only_an_answer_that_did_not_arrive_is_counted() -> None:
    outcomes = {Fate.SENT: 0, Fate.DELAYED: 0, Fate.REFUSED: 0, Fate.UNANSWERED: 1, Fate.DROPPED: 0}
    assert {
        fate: rules.after_attempt(a_mail(), AttemptOutcome(fate), NOW).unanswered for fate in Fate
    } == outcomes
