"""Descriptions of the roles."""

from keywright.identity.model import Role

#: What each role may do, in a sentence.
ROLE_TEXTS: dict[Role, str] = {
    Role.READER: "A reader may look at licenses and events, and change nothing.",
    Role.SUPPORT: "Support may look at everything about licenses, and change licenses and activations.",
    Role.ADMINISTRATOR: "An administrator may do everything.",
}
