"""Whose request it is: the member of a connection, unidentified Fetches, tools; and the requests of the group APIs."""
