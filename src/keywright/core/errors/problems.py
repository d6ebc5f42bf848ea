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
        "Send a JSON object in UTF-8. Client calls also accept a form.",
        "The body is not a JSON object in UTF-8.",
    ),
    "unknown_parameter": Problem(
        400,
        "There is no such query parameter",
        "The management API accepts only the query parameters that the reference lists for a route, so "
        "that a misspelled filter does not select everything.",
        "See `errors`: it names each unknown parameter and the nearest known one.",
    ),
    "invalid_parameter": Problem(
        400,
        "A query parameter or a header is invalid",
        "A query parameter, or a header such as `Idempotency-Key`, has an invalid value. A cursor is "
        "valid only for the list, the filters and the order that it came from.",
        "See `errors`: it states what each value must be.",
    ),
    "credentials_missing": Problem(
        401,
        "An API key is required",
        "The call requires an API key, and has none.",
        "Send the token of an API key as `Authorization: Bearer kw_…`, or its consumer key and secret "
        "with HTTP Basic. `keywright apikey create` creates an API key.",
        "The call requires an API key and has none.",
    ),
    "credentials_invalid": Problem(
        401,
        "The API key is invalid",
        "No valid API key has these credentials: they are mistyped, or the key was revoked or has expired.",
        "Compare them with those shown when the API key was created. `keywright apikey list` lists the "
        "API keys.",
        "No valid API key has these credentials.",
    ),
    "not_permitted": Problem(
        403,
        "The API key may not do this",
        "The API key is valid, but does not have the permission that the call requires: `read` for calls "
        "that read, `write` for calls that change something, any but `write` for client calls; or a "
        "client call has an API key for another product than the license.",
        "Use an API key with that permission. `GET /v3/me` states what a key may do, and for which product.",
    ),
    "not_found": Problem(
        404,
        "Not found",
        "Nothing has this address or this ID, or the API key may not see it: a key for one product sees "
        "only that product.",
        "Check the ID. Deleted items do not come back.",
        "Nothing has this address.",
    ),
    "unknown_license": Problem(
        404,
        "There is no such license",
        "No license has this key. It may be mistyped, or the license was deleted or belongs to a product "
        "that the API key may not see.",
        "Ask the customer to compare the key with the one in their receipt.",
        "No license has this key.",
    ),
    "unknown_device": Problem(
        404,
        "The device has never had a place",
        "The license has no activation with this fingerprint or token.",
        "Activate the device first. A device that was reinstalled may have a new fingerprint: activate "
        "it with `replaces`.",
        "The license has no activation of this device.",
    ),
    "method_not_allowed": Problem(
        405,
        "The method is not allowed",
        "The address exists, but does not support this method.",
        "Use one of the methods in the header `Allow`.",
    ),
    "not_acceptable": Problem(
        406,
        "The requested media type is not available",
        "The header `Accept` allows none of the media types that this call can return.",
        "Omit it, or send `Accept: application/json`.",
    ),
    "idempotency_key_in_use": Problem(
        409,
        "The first call with this idempotency key is still running",
        "A call with the same `Idempotency-Key` came a moment ago and has not been answered yet.",
        "Send the call again after `Retry-After`: it gets the first call's answer.",
        "The first call with this idempotency key is still running.",
    ),
    "limit_reached": Problem(
        409,
        "Every place of the license is taken",
        "The license is in use on as many devices as it allows (`max_activations`).",
        "Ask the customer to deactivate a device that is no longer used, or sell them more places.",
        "Every place of the license is taken.",
    ),
    "expired": Problem(
        409,
        "The license has expired",
        "The license was valid until its `expires_at`, and its grace, if any, is over too.",
        "Renew the license.",
        "The license has expired.",
    ),
    "inactive": Problem(
        409,
        "The license is inactive",
        "The vendor has set the license's status to `inactive`.",
        "Set its status to `active`. A customer has to ask the vendor.",
        "The license is inactive.",
    ),
    "disabled": Problem(
        409,
        "The license is disabled",
        "The vendor has disabled the license, for example after a refund.",
        "Set its status to `active`. A customer has to ask the vendor.",
        "The license is disabled.",
    ),
    "product_mismatch": Problem(
        409,
        "The license is for another product",
        "The program named its `product`, and the license is for another one, or for none.",
        "Ask the customer to enter the key of this product.",
        "The license is for another product.",
    ),
    "key_rotated": Problem(
        409,
        "The license has a new key",
        "The vendor replaced the license key, and this one is no longer accepted. The activations were kept.",
        "Enter the new key. The vendor or the customer portal shows it.",
        "The license has a new key.",
    ),
    "fingerprint_required": Problem(
        409,
        "The license requires a fingerprint",
        "The license's terms have `device: required`, and the call has no fingerprint.",
        "Send `fingerprint`. The client libraries compute one.",
        "The license requires a fingerprint of the device.",
    ),
    "no_free_lease": Problem(
        409,
        "Every lease of the license is held",
        "As many leases are held as the license allows (`max_leases`).",
        "Try again after `retry_after_seconds`; the next lease ends by then.",
        "Every lease of the license is held.",
    ),
    "not_activated": Problem(
        409,
        "The device holds no place",
        "The call requires an activated device, and this one was never activated or was deactivated.",
        "Activate the device first.",
        "The device holds no place on the license.",
    ),
    "too_many_new_devices": Problem(
        409,
        "Too many new devices",
        "The license's terms (`new_devices`) limit how many new devices may be activated in a number of "
        "days, and that limit is reached.",
        "Use a device that the license knows, or try again after `retry_after_seconds`.",
        "Too many new devices were activated.",
    ),
    "no_removal_left": Problem(
        409,
        "No device may be removed now",
        "The license's terms (`portal_removals`) limit how many devices a customer may remove in a "
        "number of days, and that limit is reached. With a count of 0, only the vendor can remove "
        "devices.",
        "Try again after `retry_after_seconds`. Without it, ask the vendor to remove a device.",
        "No device may be removed now.",
    ),
    "leases_not_offered": Problem(
        409,
        "The license offers no leases",
        "The license is not a floating license: its terms have no `max_leases`.",
        "Activate the device instead, or set `max_leases`.",
        "The license offers no leases.",
    ),
    "offline_not_allowed": Problem(
        409,
        "The license cannot be used offline",
        "The license's terms have `offline_days: 0`, or have `max_leases` and no `max_activations`: it must "
        "be validated over the network.",
        "Validate it over the network, or set `offline_days`, or `max_activations`.",
        "The license cannot be used offline.",
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
        "The product has no policy for trials, or the named policy is not for trials.",
        "Name a policy whose terms have `trial`.",
        "There is no trial of this product.",
    ),
    "trial_used": Problem(
        409,
        "The device has already had its trial",
        "A device gets one trial of a product, ever, and the trial of this device was deleted.",
        "Buy a license.",
        "The device has already had its trial of this product.",
    ),
    "not_claimable": Problem(
        409,
        "The license cannot be claimed",
        "The key is unknown, its license already has a customer, or its terms do not allow a claim.",
        "Check the key. The vendor makes a license claimable with the term `claimable`.",
        "No license can be claimed with this key.",
    ),
    "not_transferable": Problem(
        409,
        "The license cannot be transferred now",
        "The terms do not allow it, or not yet; a subscription or a trial is running; or the license was "
        "claimed in the last 14 days.",
        "Read `detail`. The terms are `transferable` and `transfer_after_days`.",
        "This license cannot be transferred.",
    ),
    "transfer_pending": Problem(
        409,
        "The license is offered to another customer",
        "The license was offered to another customer, who has not answered yet.",
        "Cancel that offer, or wait until it ends after 7 days.",
        "This license is offered to another customer. Cancel that offer first.",
    ),
    "policy_archived": Problem(
        409,
        "The policy is archived",
        "An archived policy makes no more licenses; existing ones stay as they are.",
        "Use another policy, or set `is_archived` to false.",
        "The policy is archived and makes no more licenses.",
    ),
    "never_expires": Problem(
        409,
        "The license never expires",
        "The license has no expiry that could be extended.",
        "To make the license expire, set `expires_at` with PATCH.",
        "The license never expires, so it cannot be renewed.",
    ),
    "already_exists": Problem(
        409,
        "It already exists",
        "Another item has the same key, code, e-mail address or ID, which must be unique.",
        "Use another value, or change the existing item.",
    ),
    "still_in_use": Problem(
        409,
        "It is still in use",
        "Other items depend on it, such as the licenses of a policy or a product.",
        "Change or delete those first, or archive the policy.",
        "Other items still depend on it.",
    ),
    "release_not_ready": Problem(
        409,
        "The release is not ready for this",
        "A release can be published when all its files are uploaded and unaltered, its signatures "
        "verify, and its version is the newest of its channel. After that, its files cannot be changed.",
        "`detail` states what is missing. `allow_older` publishes an older version.",
    ),
    "content_mismatch": Problem(
        409,
        "The uploaded file does not match",
        "The upload has another size or SHA-256 than was announced for the file, or than an earlier "
        "upload. It was discarded.",
        "Upload the right file. A file with other contents needs another name or another release.",
    ),
    "changed_meanwhile": Problem(
        412,
        "It was changed in the meantime",
        "`If-Match` does not name the current version. Nothing was changed.",
        "Read it again, and repeat the change with the new `ETag`.",
        "If-Match does not name the current version.",
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
        "The media type is not supported",
        "The header `Content-Type` names none of the media types that this call accepts or a charset "
        "other than UTF-8, or there is a `Content-Encoding`.",
        "Send JSON with `Content-Type: application/json`, not compressed.",
    ),
    "invalid": Problem(
        422,
        "Members of the body are invalid",
        "The body is JSON, but members of it are missing, unknown to the management API, or have invalid "
        "values. Nothing was changed.",
        "See `errors`: it lists every invalid member (`pointer`, a JSON Pointer) and what it must be.",
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
        "Internal error",
        "The server failed, and nothing was changed. Its log has details.",
        "Try again later. If it happens again, send the vendor the time of the call.",
        "The server failed, and nothing was changed.",
    ),
    "busy": Problem(
        503,
        "The server is busy",
        "Too many calls are waiting, or other calls are changing the same items. Nothing was changed.",
        "Send the same call again after `Retry-After`, with the same `Idempotency-Key`.",
        "The server is too busy to answer. Nothing was changed.",
    ),
    "database_unavailable": Problem(
        503,
        "The database is not responding",
        "The server is running, but its database cannot be reached or written. Nothing was changed.",
        "Send the same call again after `Retry-After`. A program should continue with its last answer.",
        "The database is not responding. Nothing was changed.",
    ),
    "fate_unknown": Problem(
        503,
        "The outcome is unknown",
        "The connection to the database broke while the change was being committed, so it may or may not "
        "have been made.",
        "Send the same call again with the same `Idempotency-Key`, or read the current state.",
        "The database connection broke at the last moment. The change may or may not have been made.",
    ),
    "shutting_down": Problem(
        503,
        "The server is shutting down",
        "The server is stopping or restarting. Nothing was changed.",
        "Send the same call again after `Retry-After`.",
        "The server is shutting down. Nothing was changed.",
    ),
}
