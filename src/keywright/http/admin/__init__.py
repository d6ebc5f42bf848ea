"""The administration pages. The server imports them at the first request for one."""
