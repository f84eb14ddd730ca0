"""Share members (KIP-932): their sessions, what they acknowledge, and answers that wait until that is stored."""
