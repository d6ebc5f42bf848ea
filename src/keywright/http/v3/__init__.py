"""The v3 interface: client calls of shipped programs, and the management API (``docs/reference/v3.md``)."""
