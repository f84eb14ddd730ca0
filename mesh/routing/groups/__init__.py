"""Groups with topics of several clusters: members are at the home of the group, offsets with the owners of topics."""
