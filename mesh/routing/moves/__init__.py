"""Moves of topics from one cluster of a union to another, while clients write and read them. This package decides, and
does no IO.

A *move* has two sides: the topic's *home*, and the side *away*. The topic is at one of them. While the move is *going*,
the topic is copied to the other side, offset by offset. At the *cut*, clients are sent to that side. Both sides have
the same offsets.
"""
