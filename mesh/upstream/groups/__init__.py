"""What an upstream group says of itself: owners of partitions, fencing, and whether it can be reached."""
