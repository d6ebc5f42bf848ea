"""What everyone may read and use without an account: public keys, and license files for the air gap."""
