"""The drill: Keywright on a PostgreSQL cluster that loses its primary again and again, under load."""
