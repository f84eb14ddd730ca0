"""Kafka's two group protocols: members, generations, subscriptions."""
