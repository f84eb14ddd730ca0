"""The state that the leaves of a union share."""

from __future__ import annotations

import pytest

from mesh.routing.producer_ids import tag_of, tagged
from mesh.routing.translation import HomeUnknown
from mesh.runtime.entity_router.leaves import TaggedProducers
from tests.runtime.entity_router.harness import union
from tests.runtime.relay.loops import anyhow, until


@anyhow
async def test_the_tag_of_producer_ids_is_that_of_the_cluster_unless_one_is_given() -> None:
    async with union() as made:
        home = made.leaves.default
        await until(lambda: home.nodes.cluster_id is not None)
        producers = TaggedProducers(home)
        assert producers.tagged(5) == tagged(tag_of("id of eu"), 5)
        home.given_tag = 7
        assert producers.tagged(5) == tagged(7, 5)
        assert producers.untagged(tagged(7, 5)) == 5


@anyhow
async def test_without_a_tag_nothing_can_be_written_elsewhere() -> None:
    async with union() as made:
        home = made.leaves.default
        home.nodes.cluster_id = None
        producers = TaggedProducers(home)
        with pytest.raises(HomeUnknown):
            producers.tagged(5)
        assert producers.untagged(5) == 5
