"""Groups of a router's clients whose topics are in several clusters."""
