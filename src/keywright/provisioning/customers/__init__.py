"""Customers: the people and companies that have licenses."""
