"""The built-in templates in six languages, in Jinja2 like the vendors' own.

An indented line is a license key or a code; a line that ends in a colon, followed by a URL, becomes a button.
"""

from pathlib import Path
from typing import NamedTuple

from keywright.events.model import MailTemplate
from keywright.languages import ENGLISH, Language

CATALOGS = Path(__file__).parent / "locale"


class Source(NamedTuple):
    """The parts of a template, in Jinja2."""

    subject: str
    text: str
    html: str = ""


def N_(text: str) -> str:
    """Mark a text for translation, and return it unchanged."""
    return text


_HELLO = N_("Hello{% if customer.name %} {{ customer.name }}{% endif %},")
_GREETING = N_("{{ vendor }}")
_KEYS = (
    "{% for license in licenses %}",
    "    {{ license.key }}",
    N_(
        "{{ license.product }}"
        "{% if license.expires_at %}, valid until {{ license.expires_at|day }}{% endif %}"
    ),
    "",
    "{% endfor %}",
    "{% if more_licenses %}",
    N_("There are more; the portal lists all of them."),
    "",
    "{% endif %}",
)
_MASKED = (
    "{% for license in licenses %}",
    N_(
        "{{ license.product }}, key {{ license.mask }}"
        "{% if license.expires_at %}, until {{ license.expires_at|day }}{% endif %}"
    ),
    "{% endfor %}",
    "",
)
_PORTAL = (
    "{% if portal_url %}",
    N_("Manage your licenses and devices:"),
    "{{ portal_url }}",
    "",
    "{% endif %}",
)
_RENEW = (
    "{% for license in licenses if license.renew_url %}",
    N_("Renew {{ license.product }}:"),
    "{{ license.renew_url }}",
    "",
    "{% endfor %}",
)
_UNSUBSCRIBE = (
    "",
    "{% if unsubscribe_url %}",
    N_("To stop these reminders, unsubscribe here: {{ unsubscribe_url }}"),
    "{% endif %}",
)
_TEMPLATES: dict[MailTemplate, tuple[str, tuple[str, ...]]] = {
    MailTemplate.YOUR_LICENSE: (
        N_("Your license for {{ product }}"),
        (
            _HELLO,
            "",
            N_("Thank you for your purchase. This is what you need to use {{ product }}:"),
            "",
            *_KEYS,
            N_(
                "To activate it, open {{ product }} and enter the key where it asks for one. It is best to "
                "copy the key from this mail."
            ),
            "",
            *_PORTAL,
            N_("Please keep this mail safe: anyone who has the key can use your license."),
            "",
            _GREETING,
        ),
    ),
    MailTemplate.RENEWED: (
        N_("Your license for {{ product }} has been renewed"),
        (
            _HELLO,
            "",
            N_("Thank you. Your license has been renewed; you do not need to do anything."),
            "",
            *_MASKED,
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.CHANGED: (
        N_("Your license for {{ product }} has changed"),
        (
            _HELLO,
            "",
            N_("What you pay for has changed. These are your licenses now; their keys stay the same:"),
            "",
            "{% for license in licenses %}",
            N_(
                "{{ license.product }}, key {{ license.mask }}"
                "{% if license.max_activations %}, devices: {{ license.max_activations }}{% endif %}"
                "{% if license.expires_at %}, until {{ license.expires_at|day }}{% endif %}"
            ),
            "{% endfor %}",
            "",
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.EXPIRING: (
        N_("Your license for {{ product }} ends on {{ expires_at|day }}"),
        (
            _HELLO,
            "",
            N_("This is a reminder: your license for {{ product }} ends on {{ expires_at|day }}."),
            "",
            *_MASKED,
            N_("If it renews automatically, you do not need to do anything."),
            "",
            *_RENEW,
            *_PORTAL,
            _GREETING,
            *_UNSUBSCRIBE,
        ),
    ),
    MailTemplate.EXPIRED: (
        N_("Your license for {{ product }} has ended"),
        (
            _HELLO,
            "",
            N_("Your license for {{ product }} has ended. Once it is renewed, the same key works again."),
            "",
            *_MASKED,
            *_RENEW,
            *_PORTAL,
            _GREETING,
            *_UNSUBSCRIBE,
        ),
    ),
    MailTemplate.PAYMENT_FAILED: (
        N_("The payment for {{ product }} did not go through"),
        (
            _HELLO,
            "",
            N_(
                "The payment for {{ product }} did not go through. To keep your license, please check "
                "your payment method in the shop where you bought it."
            ),
            "",
            *_MASKED,
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.SIGN_IN_CODE: (
        N_("Your sign-in code for {{ vendor }}"),
        (
            N_("Use this code to sign in to the portal of {{ vendor }}:"),
            "",
            "    {{ code }}",
            "",
            "{% if sign_in_url %}",
            N_("Or open this page within 90 minutes, on any device:"),
            "{{ sign_in_url }}",
            "",
            "{% endif %}",
            N_(
                "The code works for 15 minutes, in the browser that asked for it. If you did not ask for it, "
                "you can ignore this mail: nobody can sign in without it."
            ),
        ),
    ),
    MailTemplate.YOUR_KEYS: (
        N_("Your license keys from {{ vendor }}"),
        (
            _HELLO,
            "",
            N_("You asked for your license keys. Here they are:"),
            "",
            *_KEYS,
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.LICENSE_OFFERED: (
        N_("A license for {{ product }} is offered to you"),
        (
            _HELLO,
            "",
            N_("{{ offered_by }} offers you a license for {{ product }}."),
            "",
            "{% if portal_url %}",
            N_("View the offer, and accept it or not. To sign in, use the address that received this mail:"),
            "{{ portal_url }}",
            "",
            "{% endif %}",
            N_(
                "The offer is valid for 7 days. If you do not want the license, you do not need to do "
                "anything."
            ),
            "",
            _GREETING,
        ),
    ),
    MailTemplate.LICENSE_RECEIVED: (
        N_("Your license for {{ product }}"),
        (
            _HELLO,
            "",
            N_("This license is yours now. It has a new key, and no device uses it yet:"),
            "",
            *_KEYS,
            *_PORTAL,
            N_("Please keep this mail safe: anyone who has the key can use your license."),
            "",
            _GREETING,
        ),
    ),
    MailTemplate.LICENSE_GIVEN: (
        N_("Your license for {{ product }} belongs to another customer now"),
        (
            _HELLO,
            "",
            N_(
                "Your license for {{ product }} was transferred to another customer. Your key is no "
                "longer accepted."
            ),
            "",
            N_("If you did not expect this, please write to us soon."),
            "",
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.NOTICE: (
        N_("{{ product }}: {{ notice.title }}"),
        (
            _HELLO,
            "",
            "{% if notice.is_security %}",
            N_("This is a security notice about {{ product }}, which you use:"),
            "{% else %}",
            N_("This is a notice about {{ product }}, which you use:"),
            "{% endif %}",
            "",
            "{{ notice.title }}",
            N_("Affected versions: {{ notice.affected }}"),
            "",
            "{% if notice.text %}",
            "{{ notice.text }}",
            "",
            "{% endif %}",
            "{% if notice.fixed_in %}",
            N_("Version {{ notice.fixed_in }} fixes this. Please update."),
            "{% if notice.is_free_for_expired %}",
            N_("You can install it even if your license has ended."),
            "{% endif %}",
            "",
            "{% endif %}",
            "{% if notice.url %}",
            N_("Read more:"),
            "{{ notice.url }}",
            "",
            "{% endif %}",
            *_PORTAL,
            _GREETING,
        ),
    ),
    MailTemplate.LICENSE_FILES: (
        N_("Your license files for {{ product }}"),
        (
            _HELLO,
            "",
            N_(
                "A license file is attached for each of your devices. With it, {{ product }} needs no server:"
            ),
            "",
            "{% for file in files %}",
            N_(
                "{{ file.name }}: {{ file.product }}, key {{ file.mask }}"
                "{% if file.device %}, device {{ file.device }}{% endif %}"
                "{% if file.valid_until %}, valid until {{ file.valid_until|day }}{% endif %}"
            ),
            "{% endfor %}",
            "",
            N_(
                "To use one, copy it to its device and open it in the program, where it asks for a license "
                "file. A file fits only the device that it names."
            ),
            "",
            N_(
                "Please keep the files and your license key in a safe place: once the server is gone, they "
                "cannot be made again."
            ),
            "",
            _GREETING,
        ),
    ),
    MailTemplate.ENDPOINT_DISABLED: (
        N_("Keywright has disabled a webhook endpoint"),
        (
            "{% if endpoint.is_gone %}",
            N_("This address answered 410 (Gone), so it was disabled at once:"),
            "{% else %}",
            N_("Every delivery to this address has failed for five days, so it was disabled:"),
            "{% endif %}",
            "",
            "    {{ endpoint.url }}",
            N_("It is endpoint {{ endpoint.id }}."),
            "",
            N_(
                "Events are kept for 30 days. Enable the endpoint again once it works: deliveries "
                "continue where they stopped."
            ),
            "",
            "{% if endpoint.page_url %}",
            N_("Open the endpoint:"),
            "{{ endpoint.page_url }}",
            "{% endif %}",
        ),
    ),
}

#: The texts of the unsubscribe page: heading, text, button, confirmation, and error for a bad link.
UNSUBSCRIBE_HEADING = N_("Unsubscribe from reminders")
UNSUBSCRIBE_TEXT = N_(
    "You will no longer get reminders that a license is about to end. You will still get mails about "
    "your purchases."
)
UNSUBSCRIBE_BUTTON = N_("Unsubscribe")
UNSUBSCRIBED = N_("You will no longer get reminders.")
BAD_LINK = N_("This link is incomplete. Open it from the mail again.")

_LANGUAGES = {ENGLISH: Language(ENGLISH)} | {
    one.stem.replace("_", "-"): Language(one.stem.replace("_", "-"), one)
    for one in sorted(CATALOGS.glob("*.po"))
}
#: The codes of the languages, English first.
CODES = tuple(_LANGUAGES)


def choose_language(wanted: str | None, fallback: str) -> Language:
    """Return the language with this code (``de``, ``pt-BR``) or nearest; else the fallback, else English."""
    for code in (wanted, fallback):
        known = (code or "").replace("_", "-")
        for one in (known, known.partition("-")[0], _REGIONS.get(known.partition("-")[0], "")):
            if one in _LANGUAGES:
                return _LANGUAGES[one]
    return _LANGUAGES[ENGLISH]


#: Languages with catalogs for one region only.
_REGIONS = {"pt": "pt-BR"}


def built_in(name: MailTemplate, language: Language) -> Source:
    """Return the built-in template in this language."""
    say = language.translations.gettext
    subject, lines = _TEMPLATES[name]
    return Source(say(subject), "\n".join(say(line) if line else line for line in lines))
