"""Where shops send their webhooks: `/in/{shop}/{connection}`."""
