"""Webhooks notify the vendor's systems of events, as in Standard Webhooks (https://www.standardwebhooks.com)."""
