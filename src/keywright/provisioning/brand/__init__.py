"""The look that a vendor gives the portal and mails: name, logo, color and links."""
