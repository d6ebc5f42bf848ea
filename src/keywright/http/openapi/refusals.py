"""When each error is the answer, in words; what it is answered with stands in ``problems``."""

from keywright.core import errors as e

Errors = tuple[type[e.KeywrightError], ...]

WHEN: dict[type[e.KeywrightError], str] = {
    e.UnknownLicense: "No license has this key, or the caller may not know that one has.",
    e.LicenseExpired: "The license has ended.",
    e.LicenseInactive: "The license's status is inactive.",
    e.LicenseDisabled: "The license's status is disabled.",
    e.LimitReached: "Every place of the license is taken.",
    e.NothingActive: "The license has no active record.",
    e.InvalidLicenseKey: "There is no key, or it is empty, too long, or has control characters.",
    e.LicenseKeyTaken: "Another license has this key.",
    e.InvalidStatus: "The status is neither a name nor a number of one.",
    e.NothingToChange: "The call says nothing to change.",
    e.FieldNotWritable: "A field is unknown or may not be written; nothing was written.",
    e.NoLicenses: "No license matches.",
    e.UnknownToken: "This license has no activation with this token.",
    e.AlreadyActivated: "The activation is active already.",
    e.TokenNotActive: "This license has no activation with this token, or it is deactivated.",
    e.UnknownGenerator: "No generator has this number.",
    e.NoGenerators: "There is none.",
    e.GeneratorFieldMissing: "A generator cannot be made without this.",
    e.GeneratorFieldInvalid: "The text is empty or too long.",
    e.GeneratorFieldNotInteger: "The number is none, or out of range.",
    e.GeneratorTooWeak: "Keys like these could be guessed.",
    e.InvalidParameters: "A parameter has the wrong type or size; `data.params` says which, and why.",
    e.BodyNotAnObject: "The body is JSON and neither an object nor empty, `[]` or `null`.",
    e.IdempotencyKeyReused: "The idempotency key was used before, with other parameters.",
    e.IdempotencyKeyBusy: "The first call with this idempotency key is still running.",
    e.CredentialsMissing: "The call needs an API key and came without one, or with half of one.",
    e.CredentialsInvalid: "No API key in force has this consumer key and consumer secret.",
    e.NoReadPermission: "The API key may not do this.",
    e.NoWritePermission: "The API key may not change anything.",
    e.RateLimited: "Too many unknown license keys, wrong credentials or malformed requests came from here.",
    e.TooManyChanges: "Too many activations of this license, or from this address, have succeeded.",
    e.NoSuchAddress: "There is nothing at this address; a `/` in a key must be written `%2F`.",
    e.MethodNotAllowed: "The address has other methods, and `Allow` lists them.",
    e.PrefetchRefused: "The call says that it is a browser's prefetch.",
    e.MalformedRequest: "The bytes that came are not HTTP.",
    e.BodyIncomplete: "The caller went away before the whole body had come.",
    e.MalformedJson: "The body announces JSON and is not.",
    e.MalformedForm: "The query or the body is not a form, or has over 1,000 fields.",
    e.BodyTooLarge: "The body is over the limit: 1 MiB, a setting; without a read or write API key 64 KiB.",
    e.AddressTooLong: "Path and query have over 8 KiB.",
    e.EncodedBody: "The body is compressed.",
    e.HeadersTooLarge: "The request line and headers have over 32 KiB.",
    e.RequestTooSlow: "The request's headers or its body did not arrive within 10 seconds.",
    e.Fault: "Something is wrong on our side.",
    e.RejectedByDatabase: "Something is wrong on our side.",
    e.QueueFull: "More calls are waiting than the server takes.",
    e.WaitedTooLong: "The call could not be decided within `answer_within_seconds`; nothing was changed.",
    e.ShuttingDown: "The server is stopping.",
    e.StoreUnavailable: "The database cannot be reached, or refuses to write.",
    e.SecretMissing: "The secret was rotated, and this server does not have the new one yet.",
    e.TookTooLong: "The database took too long; nothing was changed.",
    e.StoreBusy: "Another program is writing to the database.",
    e.StoreConflict: "Another change came in between, again and again; nothing was changed.",
    e.LockTimeout: "Another change of the license takes too long.",
    e.FateUnknown: "The database's last answer did not come, or the server stopped: it was changed, or not.",
}

#: What any request may meet, whatever it asks for.
ANY_REQUEST: Errors = (
    e.MalformedRequest,
    e.MalformedForm,
    e.MethodNotAllowed,
    e.RequestTooSlow,
    e.AddressTooLong,
    e.HeadersTooLarge,
    e.RateLimited,
    e.Fault,
)
#: What any call may meet, in addition.
ANY_CALL: Errors = (
    e.InvalidParameters,
    e.CredentialsMissing,
    e.CredentialsInvalid,
    e.QueueFull,
    e.WaitedTooLong,
    e.ShuttingDown,
    e.StoreUnavailable,
    e.SecretMissing,
    e.TookTooLong,
    e.StoreBusy,
    e.StoreConflict,
)
#: … when it changes something.
ANY_CHANGE: Errors = (
    e.IdempotencyKeyBusy,
    e.IdempotencyKeyReused,
    e.RejectedByDatabase,
    e.FateUnknown,
    e.LockTimeout,
)
#: … when it has a body.
ANY_BODY: Errors = (e.BodyTooLarge, e.BodyIncomplete, e.EncodedBody, e.MalformedJson, e.BodyNotAnObject)
