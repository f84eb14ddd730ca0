"""The client side of the protocol, as used with upstream brokers: encodes requests, decodes responses. No IO."""
