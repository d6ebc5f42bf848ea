"""Devices that customers free in the portal, as often as the terms of a license allow."""
