"""Trials: licenses that a program starts by itself, one for each device and product."""
