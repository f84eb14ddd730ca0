"""Upstream commits: when they are sent and answered (`commits`), and the text format of their metadata, with
acknowledgements above the committed offset (`metadata`)."""
