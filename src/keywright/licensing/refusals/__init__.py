"""Calls about a license that were refused lately, for those who help its customer."""
