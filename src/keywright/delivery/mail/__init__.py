"""Mail: templates, rendering, the outbox and SMTP."""
