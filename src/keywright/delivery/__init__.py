"""What leaves: mails and webhooks."""
