"""Request handling that every interface shares: addresses, credentials, limits, body sizes, answers."""
