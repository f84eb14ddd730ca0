"""Sections of the configuration for TLS, SASL and rules, and the files that they name."""
