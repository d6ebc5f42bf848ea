"""Refusals about users and API keys. No call of v2 meets them."""

from keywright.core.errors.root import Refusal


class UserExists(Refusal):
    """There is already a user with this name."""

    code = "user.exists"
    problem = "already_exists"
    problem_detail = "There is already a user with this name."
    sentence = "There is already a user with this name."
    hint = "there is already a user with this name. Choose another name."
    v2 = None


class UnknownUser(Refusal):
    """There is no user with this name or number, or none who may sign in."""

    code = "user.unknown"
    problem = "not_found"
    problem_detail = "There is no such user."
    status = 404
    sentence = "There is no such user."
    hint = "there is no user with this name. `keywright user list` shows those there are."
    v2 = None


class LastAdministrator(Refusal):
    """No administrator would be left."""

    code = "user.last_administrator"
    sentence = "There is no other administrator. Make another user one first."
    hint = "no administrator would be left. Make another administrator first."
    v2 = None


class InvitationOver(Refusal):
    """The link of an invitation was used, is too old, or was replaced by another one."""

    code = "user.invitation_over"
    status = 403
    heading = "This link is no longer valid"
    sentence = "It works once, for three days. Ask for a new one."
    v2 = None


class CustomerSignInOver(Refusal):
    """The code or the link with which a customer signs in is wrong, was used, or is too old."""

    code = "customer.sign_in_over"
    status = 403
    sentence = "This code or link is not valid, or no longer valid."
    v2 = None


class PublicUrlMissing(Refusal):
    """A link with a secret in it would begin with an address that the request names, and anybody may name."""

    code = "link.public_url_missing"
    problem = "not_permitted"
    problem_detail = "Links need the setting public_url, the address at which browsers reach this server."
    status = 403
    sentence = (
        "Links need the setting public_url, the address at which browsers reach this server. Without it, "
        "they are made on this machine only."
    )
    v2 = None


class TooManyViews(Refusal):
    """The user has as many saved views as there can be."""

    code = "user.too_many_views"
    sentence = "There can be {most} views. Delete one first."
    v2 = None
    example = (20,)

    most: int


class SetupOver(Refusal):
    """The first administrator is made already."""

    code = "user.setup_over"
    sentence = "The first administrator has already been created. Sign in instead."
    hint = (
        "there are users already, so no link makes the first administrator any more. "
        "`keywright user create` makes another user."
    )
    v2 = None


class UnknownApiKey(Refusal):
    """There is no API key with this id that is still in force."""

    code = "api_key.unknown"
    problem = "not_found"
    problem_detail = "There is no such API key in force."
    status = 404
    sentence = "There is no such API key in force."
    hint = "no API key with this number is in force. `keywright apikey list` shows those there are."
    v2 = None
