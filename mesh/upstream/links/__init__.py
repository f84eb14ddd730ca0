"""Our own connections to brokers: any request to any node."""
