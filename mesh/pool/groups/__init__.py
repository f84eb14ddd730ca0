"""The group protocols of a pool (classic, KIP-848 and share groups): members, generations, subscriptions; and locks, by
which members lose records that they hold for too long."""
