"""The portal: sign-ins, links and sessions of customers, and their requests."""
