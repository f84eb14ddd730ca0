"""A buffer is given out again when the last batch in it is gone, and not before."""

from __future__ import annotations

from mesh.upstream.buffers import ReceiveBuffers

MIB = 1 << 20


def test_a_buffer_is_used_again_when_its_last_part_is_gone() -> None:
    buffers = ReceiveBuffers(8 * MIB)
    view = memoryview(buffers.allocate(MIB))
    first = id(view.obj)
    part = view[100:200]
    del view
    assert id(buffers.allocate(MIB)) != first
    assert buffers.held == MIB
    part[0:1] = b"x"
    del part
    assert buffers.held == 0
    assert id(buffers.allocate(MIB)) == first


def test_no_two_answers_share_a_buffer() -> None:
    buffers = ReceiveBuffers(8 * MIB)
    held = [memoryview(buffers.allocate(size * MIB))[:1] for size in (1, 2, 1, 3, 2)]
    assert len({id(view.obj) for view in held}) == 5
    assert buffers.held == 9 * MIB
    assert buffers.is_full


def test_the_smallest_that_is_large_enough_is_taken() -> None:
    buffers = ReceiveBuffers(8 * MIB)
    held = [memoryview(buffers.allocate(size * MIB)) for size in (3, 1, 2)]
    del held
    assert [len(buffers.allocate(size)) for size in (2 * MIB, MIB + 1, 3 * MIB - 5)] == [2 * MIB, 2 * MIB, 3 * MIB]


def test_free_buffers_do_not_pile_up() -> None:
    buffers = ReceiveBuffers(8 * MIB)
    for size in range(1, 40):
        buffers.allocate(size * MIB)
    assert len(buffers._buffers) < 12


def test_small_ones_are_not_kept() -> None:
    buffers = ReceiveBuffers(0)
    small = buffers.allocate(100)
    assert len(small) == 100
    assert not buffers.is_full
