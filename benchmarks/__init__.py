"""How fast Keywright is on this machine: ``python -m benchmarks``."""
