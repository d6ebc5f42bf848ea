"""Sign-ins, links and sessions of customers in the portal, and what they ask for there."""
