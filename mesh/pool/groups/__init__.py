"""Kafka's two group protocols, classic and KIP-848: members, generations, subscriptions; and members that hold up
others."""
