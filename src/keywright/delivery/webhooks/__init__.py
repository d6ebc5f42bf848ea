"""Webhooks: endpoints, deliveries, and how they are signed and sent."""
