"""The processes of the demo, and the journals that judge them."""
