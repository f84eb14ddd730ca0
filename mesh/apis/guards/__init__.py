"""The guards of each API, which apply the rules of the virtual cluster."""
