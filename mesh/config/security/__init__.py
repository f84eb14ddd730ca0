"""Sections of the configuration about TLS, SASL and rules, and the files that they name."""
