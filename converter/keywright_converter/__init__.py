"""Convert the licenses of a shop with *License Manager for WooCommerce*, *Digital License Manager* or *EDD
Software Licensing*, and related records, to the JSON Lines that ``keywright import`` reads.
"""

__version__ = "0.9.0"
