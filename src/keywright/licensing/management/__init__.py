"""Licenses as the management API shows them: with their leases, usage and last validation."""
