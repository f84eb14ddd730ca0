"""One test an API that checks all of its versions: pytest takes longer to find thousands of tests than to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest

from mesh.wire.apis import ApiKey

Check: TypeAlias = Callable[[ApiKey, int], None]


def each_version(cases: Iterable[tuple[ApiKey, int]]) -> Callable[[Check], Callable[[ApiKey], None]]:
    """Makes a test of each API of a check of each API and version. A failure names the version."""
    versions: dict[ApiKey, list[int]] = {}
    for api_key, version in cases:
        versions.setdefault(api_key, []).append(version)

    def decorated(check: Check) -> Callable[[ApiKey], None]:
        @pytest.mark.parametrize("api_key", versions, ids=lambda each: each.name)
        def test(api_key: ApiKey) -> None:
            for version in versions[api_key]:
                try:
                    check(api_key, version)
                except Exception as failure:
                    failure.add_note(f"{api_key.name} v{version}")
                    raise

        test.__name__, test.__module__, test.__doc__ = check.__name__, check.__module__, check.__doc__
        return test

    return decorated
