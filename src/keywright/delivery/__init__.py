"""Outgoing deliveries: mails and webhooks."""
