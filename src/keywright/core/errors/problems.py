"""The problem codes of v3: the status of each, and the page that explains it.

The list is append-only: clients match on codes, so codes can be added but never changed.
"""

from typing import NamedTuple


class Problem(NamedTuple):
    """A problem code. ``meaning`` and ``remedy`` are the page about it, with the markup of the documents;
    ``detail`` is the detail of errors that have none of their own.
    """

    status: int
    title: str
    meaning: str
    remedy: str
    detail: str = ""


PROBLEMS: dict[str, Problem] = {
    "malformed_body": Problem(
        400,
        "The body cannot be read",
        "The body of the request is missing, is not JSON, or did not arrive completely.",
        "Send a JSON object in UTF-8. A client call takes a form, too.",
        "The body is not a JSON object in UTF-8.",
    ),
    "unknown_parameter": Problem(
        400,
        "There is no such query parameter",
        "The management API takes only the query parameters that the reference lists for a route, so that a "
        "misspelled filter does not select everything.",
        "Look at `errors`: it names each parameter, and the known one that is nearest to it.",
    ),
    "invalid_parameter": Problem(
        400,
        "A query parameter or a header has a wrong value",
        "A query parameter, or a header such as `Idempotency-Key`, has a value that it cannot have. A cursor "
        "belongs to the list, the filters and the order that it came from.",
        "Look at `errors`: it states for each what it must be.",
    ),
    "credentials_missing": Problem(
        401,
        "An API key is needed",
        "The call needs an API key, and has none.",
        "Send the token of an API key as `Authorization: Bearer kw_…`, or its consumer key and secret with "
        "HTTP Basic. `keywright apikey create` makes an API key.",
        "The call needs an API key and has none.",
    ),
    "credentials_invalid": Problem(
        401,
        "The API key is wrong",
        "No API key in force has these credentials: they are mistyped, or the key was revoked or expired.",
        "Compare them with what was shown when the API key was made; `keywright apikey list` shows which are "
        "in force.",
        "No API key in force has these credentials.",
    ),
    "not_permitted": Problem(
        403,
        "The API key may not do this",
        "The API key is in force, but does not have the permission that the call needs: `read` for calls "
        "that read, `write` for calls that change, any but `write` for client calls; or a client call has an "
        "API key for another product than the license.",
        "Use an API key with that permission. `GET /v3/me` states what a key may do, and for which product.",
    ),
    "not_found": Problem(
        404,
        "There is no such thing",
        "Nothing has this address or this id, or the API key may not see it: a key for one product sees that "
        "product alone.",
        "Check the id. A thing that was deleted does not come back.",
        "Nothing has this address.",
    ),
    "unknown_license": Problem(
        404,
        "There is no such license",
        "No license has this key. It may be mistyped, or the license was deleted or belongs to a product "
        "that the API key may not see.",
        "Let the customer compare the key with the one in their receipt.",
        "No license has this key.",
    ),
    "unknown_device": Problem(
        404,
        "The device has never had a place",
        "The license has no activation with this fingerprint or token.",
        "Activate the device first. A device that was set up anew may have another fingerprint: activate it "
        "with `replaces`.",
        "The license has no activation of this device.",
    ),
    "method_not_allowed": Problem(
        405,
        "The address does not have this method",
        "The address exists, but not for this method.",
        "Use one of the methods in the header `Allow`.",
    ),
    "not_acceptable": Problem(
        406,
        "The answer cannot be given in this form",
        "The header `Accept` admits none of the media types that this call can answer with.",
        "Leave it out, or send `Accept: application/json`.",
    ),
    "idempotency_key_in_use": Problem(
        409,
        "The first call with this idempotency key is still running",
        "A call with the same `Idempotency-Key` came a moment ago and is not answered yet.",
        "Send it again after `Retry-After`: it gets the first call's answer.",
        "The first call with this idempotency key is still running.",
    ),
    "limit_reached": Problem(
        409,
        "Every place of the license is taken",
        "The license is in use on as many devices as it allows (`max_activations`).",
        "Let the customer give up the place of a device that is no longer used, or sell them more places.",
        "Every place of the license is taken.",
    ),
    "expired": Problem(
        409,
        "The license has expired",
        "The license was valid up to its `expires_at`, and its grace, if it has any, is over too.",
        "Renew the license.",
        "The license has expired.",
    ),
    "inactive": Problem(
        409,
        "The license is inactive",
        "The vendor has set the license's status to `inactive`.",
        "Set its status to `active`, or let the customer ask the vendor.",
        "The license is inactive.",
    ),
    "disabled": Problem(
        409,
        "The license is disabled",
        "The vendor has disabled the license, for example after a refund.",
        "Set its status to `active`, or let the customer ask the vendor.",
        "The license is disabled.",
    ),
    "product_mismatch": Problem(
        409,
        "The license is for another product",
        "The program named its `product`, and the license is for another one, or for none.",
        "Let the customer enter the key of this product.",
        "The license is for another product.",
    ),
    "key_rotated": Problem(
        409,
        "The license has a new key",
        "The vendor has given the license a new key; this one is no longer good. Activations have stayed.",
        "Enter the new key. The vendor or the customer portal shows it.",
        "The license has a new key.",
    ),
    "fingerprint_required": Problem(
        409,
        "The license needs to know the device",
        "The license's terms have `device: required`, and the call named no fingerprint.",
        "Send `fingerprint`. The client libraries make one.",
        "The license can be used only with a fingerprint of the device.",
    ),
    "no_free_lease": Problem(
        409,
        "Every lease of the license is held",
        "The license is in use by as many at the same moment as it allows (`max_leases`).",
        "Try again after `retry_after_seconds`: by then, the next lease ends at the latest.",
        "Every lease of the license is held.",
    ),
    "not_activated": Problem(
        409,
        "The device holds no place",
        "The call needs a device that is activated, and this one is not, or has given up its place.",
        "Activate the device first.",
        "The device holds no place on the license.",
    ),
    "too_many_new_devices": Problem(
        409,
        "Too many new devices",
        "The license's terms (`new_devices`) limit how many devices that it has never seen may be activated "
        "in "
        "some days, and that many were.",
        "Use a device that the license knows, or try again after `retry_after_seconds`.",
        "Too many new devices were activated.",
    ),
    "no_removal_left": Problem(
        409,
        "No device may be removed now",
        "The license's terms (`portal_removals`) limit how many devices a customer may remove in some days, "
        "and that many were; a count of 0 leaves it to the vendor.",
        "Try again after `retry_after_seconds`. Without it, ask the vendor to remove a device.",
        "No device may be removed now.",
    ),
    "leases_not_offered": Problem(
        409,
        "The license offers no leases",
        "The license is not a floating one: its terms have no `max_leases`.",
        "Activate the device instead, or set `max_leases`.",
        "The license offers no leases.",
    ),
    "offline_not_allowed": Problem(
        409,
        "The license cannot be kept offline",
        "The license's terms have `offline_days: 0`, or have `max_leases` and no `max_activations`: it must "
        "be validated over the network.",
        "Validate it over the network, or set `offline_days`, or `max_activations`.",
        "The license cannot be kept offline.",
    ),
    "usage_exceeded": Problem(
        409,
        "The meter is at its limit",
        "The usage would go above the meter's limit, and the terms refuse overage. Nothing was counted.",
        "Wait until `resets_at`, or raise the limit.",
        "The meter is at its limit. Nothing was counted.",
    ),
    "trial_not_offered": Problem(
        409,
        "There is no trial of this product",
        "The product has no policy for trials, or the named one is none.",
        "Name a policy whose terms have `trial`.",
        "There is no trial of this product.",
    ),
    "trial_used": Problem(
        409,
        "The device has had its trial",
        "A device gets one trial of a product, ever; this one's was deleted.",
        "Buy a license.",
        "The device has had its trial of this product.",
    ),
    "not_claimable": Problem(
        409,
        "The license cannot be claimed",
        "The key is unknown, its license has a customer, or its terms do not allow a claim.",
        "Look at the key. The vendor makes licenses that can be claimed with the term `claimable`.",
        "There is no license that can be claimed with this key.",
    ),
    "not_transferable": Problem(
        409,
        "The license cannot be handed on now",
        "The terms do not allow it yet, a subscription or trial runs, or it was claimed in the last 14 days.",
        "Read `detail`. The terms are `transferable` and `transfer_after_days`.",
        "This license cannot be handed on.",
    ),
    "transfer_pending": Problem(
        409,
        "The license is offered to another customer",
        "The owner has offered the license, and the other customer has not answered yet.",
        "Cancel that offer, or wait until it ends: it is good for 7 days.",
        "This license is offered to another customer. Cancel that offer first.",
    ),
    "policy_archived": Problem(
        409,
        "The policy is archived",
        "An archived policy makes no more licenses; those there are stay as they are.",
        "Use another policy, or set `is_archived` to false.",
        "The policy is archived and makes no more licenses.",
    ),
    "never_expires": Problem(
        409,
        "The license never expires",
        "The license has no expiry that could be put off.",
        "Set `expires_at` with PATCH, if the license is to expire.",
        "The license never expires, so it cannot be renewed.",
    ),
    "already_exists": Problem(
        409,
        "It exists already",
        "Another thing has the same key, code, e-mail or number, which must be unique.",
        "Use another one, or change the thing that exists.",
    ),
    "still_in_use": Problem(
        409,
        "It is still in use",
        "Others depend on it: licenses that name this policy, or this product's code.",
        "Change or delete those first, or archive it.",
        "Others still depend on it.",
    ),
    "release_not_ready": Problem(
        409,
        "The release is not ready for this",
        "A release is published when the bytes of all its files are there and unaltered, its signatures "
        "verify, and its version is the newest of its channel; from then on, its files stay as they are.",
        "The sentence states what is missing. `allow_older` publishes an older version.",
    ),
    "content_mismatch": Problem(
        409,
        "Other bytes were uploaded",
        "The bytes have another size or SHA-256 than the file was announced with, or than those that were "
        "uploaded before. Nothing of them was kept.",
        "Upload the right file; a file with other bytes needs another name or another release.",
    ),
    "changed_meanwhile": Problem(
        412,
        "It was changed meanwhile",
        "`If-Match` names another version than the one there is now. Nothing was changed.",
        "Read it again, and repeat the change with the new `ETag`.",
        "It is not in the version that If-Match names.",
    ),
    "body_too_large": Problem(
        413,
        "The body is too large",
        "A body may have at most 64 KiB.",
        "Send less at once.",
        "The body is larger than 64 KiB.",
    ),
    "unsupported_media_type": Problem(
        415,
        "The body has another media type",
        "The header `Content-Type` names none of the media types that this call takes, another charset than "
        "UTF-8, or a `Content-Encoding`.",
        "Send JSON with `Content-Type: application/json`, not compressed.",
    ),
    "invalid": Problem(
        422,
        "Members of the body have wrong values",
        "The body is JSON, but members of it are missing, unknown to the management API, or have values that "
        "they cannot have. Nothing was changed.",
        "Look at `errors`: it has every wrong member (`pointer`, a JSON Pointer), and what it must be.",
    ),
    "idempotency_key_reused": Problem(
        422,
        "The idempotency key was used for another call",
        "The `Idempotency-Key` was sent before with another body.",
        "Use a new key, such as a UUID, for each new call.",
        "This idempotency key was used before with another body.",
    ),
    "too_many_requests": Problem(
        429,
        "Too many requests",
        "Too many wrong license keys, wrong credentials, malformed requests or activations came in a short "
        "time. `RateLimit-Policy` states the limits.",
        "Wait as long as `Retry-After` states. A program should wait longer after each refusal.",
    ),
    "internal_error": Problem(
        500,
        "A fault of the server",
        "Something is wrong inside the server. Nothing was changed; its log has more.",
        "Try again later. If it stays, send the vendor the time of the call.",
        "Something is wrong inside the server. Nothing was changed.",
    ),
    "busy": Problem(
        503,
        "The server is busy",
        "Too many calls wait, or others change the same things right now. Nothing was changed.",
        "Send the same call again after `Retry-After`, with the same `Idempotency-Key`.",
        "The server is too busy to answer. Nothing was changed.",
    ),
    "database_unavailable": Problem(
        503,
        "The database does not answer",
        "The server runs, but its database cannot be reached or written. Nothing was changed.",
        "Send the same call again after `Retry-After`. A program should go on with the last answer it has.",
        "The database does not answer. Nothing was changed.",
    ),
    "fate_unknown": Problem(
        503,
        "It is not known whether this was done",
        "The connection to the database broke while the change was being committed: it was done or not.",
        "Send the same call again with the same `Idempotency-Key`, or read what is there now.",
        "The connection to the database broke at the last moment: the change was done or not.",
    ),
    "shutting_down": Problem(
        503,
        "The server is about to stop",
        "The server stops or is being restarted. Nothing was changed.",
        "Send the same call again after `Retry-After`.",
        "The server is about to stop. Nothing was changed.",
    ),
}
