"""What carries decisions out: event loops of targets, with their IO."""
