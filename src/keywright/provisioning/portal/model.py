"""Sign-ins and sessions of customers. All of them are frozen."""

from datetime import datetime, timedelta

import msgspec

#: How long the code and the link of a mail are good, a link that the vendor asked for, and a session.
CODE_TIME = timedelta(minutes=15)
MAILED_LINK_TIME = timedelta(minutes=90)
LINK_TIME = timedelta(hours=24)
SESSION_TIME = timedelta(hours=1)
#: How long a sign-in is kept, so that the mails of a day can be counted.
KEPT_TIME = timedelta(hours=24)


class SignIn(msgspec.Struct, frozen=True):
    """A sign-in that was asked for by e-mail, kept until ``expires_at``; ``id`` is random, and known to the
    browser that asked and in the mail's link. One for an unknown address has a negative ``customer_id``, see
    ``rules.number_of_unknown``.
    """

    id: int
    customer_id: int
    expires_at: datetime
    wrong_codes: int = 0

    @property
    def asked_at(self) -> datetime:
        """When it was asked for."""
        return self.expires_at - KEPT_TIME


class PortalSession(msgspec.Struct, frozen=True):
    """A customer's session; the browser has its token, the database only its SHA-256."""

    token_hash: bytes
    customer_id: int
    created_at: datetime
    expires_at: datetime


class PortalLink(msgspec.Struct, frozen=True):
    """A link that signs a customer in, once; ``token`` is its secret."""

    customer_id: int
    expires_at: datetime
    token: str

    def __repr__(self) -> str:
        """Without the token."""
        return f"PortalLink({self.customer_id}, {self.expires_at})"
