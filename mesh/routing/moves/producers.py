"""Producer ids in batches that are copied from one cluster of a union to another.

The target has to know a producer by the id that the producer's next batch will have there. If the acknowledgement of a
batch by the source was lost, the target then recognizes the repeated batch.
"""

from __future__ import annotations

from collections.abc import Callable

from mesh.routing.producer_ids import ProducerIdTooLarge, tagged, untagged


def producer_ids(home: int, source: int | None, *, to_home: bool) -> Callable[[int], int]:
    """Returns a function from a producer id at the source to the producer's id at the target.

    home: the tag of the cluster that allocates producer ids for the union. source: the tag of the source; None if the
    source is that cluster. to_home: whether the target is that cluster.
    """

    def known(producer_id: int) -> int:
        if to_home and (own := untagged(home, producer_id)) is not None:
            return own
        try:
            return tagged(home if source is None else source, producer_id)
        except ProducerIdTooLarge:
            return producer_id  # it has a tag already, and so is the same in every cluster but its home

    return known
