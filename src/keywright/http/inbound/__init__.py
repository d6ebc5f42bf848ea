"""What shops send: `POST /in/{shop}/{connection}`."""
