"""What the demo starts in processes of their own, and the journals that judge them."""
