"""The live screen of the demo."""
