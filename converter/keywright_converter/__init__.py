"""The licenses of a shop with *License Manager for WooCommerce* or *Digital License Manager*, and what they
need, as the JSON Lines that ``keywright import`` reads.
"""

__version__ = "0.9.0"
