"""The v2 interface: routes, parameters, wire format and messages."""
