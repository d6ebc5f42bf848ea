"""Mail: templates, rendering, and sending what waits in the outbox."""
