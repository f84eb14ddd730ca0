"""The client side of the wire: requests out, responses in, as an upstream broker is spoken to. No IO."""
