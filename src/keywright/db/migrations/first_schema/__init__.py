"""The tables of revision 0016. They are frozen: a later revision changes them."""
