"""Groups with topics of several clusters: the members are at the group's home, the offsets at the owners of the
topics."""
