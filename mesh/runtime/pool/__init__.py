"""The runtime of a pool target: effects carried out in order, engines, tools' queries, dead letters."""
