"""The live screen of the demo, and what it is drawn from."""
