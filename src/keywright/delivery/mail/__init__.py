"""Mails: templates, and how they are rendered and sent."""
