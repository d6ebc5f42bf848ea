"""Users, sessions, passwords, second factors, API keys and rights."""
