"""Webhooks: notify the vendor's systems of events, after Standard Webhooks (https://www.standardwebhooks.com)."""
