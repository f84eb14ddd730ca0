"""Upstream commits: when they are sent and answered (`commits`), and how acknowledgements above the committed offset
are packed in the metadata of a commit (`metadata`)."""
