"""What is committed upstream, and how acknowledgements above the committed offset are packed in its metadata."""
