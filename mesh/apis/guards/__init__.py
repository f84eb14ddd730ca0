"""Who may do what of each API, by the rules of the virtual cluster."""
