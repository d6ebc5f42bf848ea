"""Leases: places of a floating license, held for minutes and renewed."""
