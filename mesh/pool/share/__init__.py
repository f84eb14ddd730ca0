"""Share members (KIP-932): their sessions, their acknowledgements, and answers that wait until these are stored."""
