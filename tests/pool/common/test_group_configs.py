from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.group_configs import GROUP_CONFIGS, InvalidGroupConfig, changed, check, settings_with
from mesh.pool.common.settings import ByDuration, ShareSettings, ShareStart

VALUES = {
    "share.auto.offset.reset": st.sampled_from(["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT0.5S"]),
    "share.delivery.count.limit": st.integers(2, 10).map(str),
    "share.isolation.level": st.sampled_from(["read_committed", "read_uncommitted"]),
    "share.partition.max.record.locks": st.integers(100, 100_000).map(str),
    "share.record.lock.duration.ms": st.integers(15_000, 60_000).map(str),
    "share.renew.acknowledge.enable": st.sampled_from(["true", "false"]),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_what_is_set_is_what_settings_say(overrides: dict[str, str]) -> None:
    settings = settings_with(ShareSettings(), overrides)
    for name, config in GROUP_CONFIGS.items():
        assert config.text(settings) == overrides.get(name, config.text(ShareSettings()))


def test_every_config_has_values_here() -> None:
    assert VALUES.keys() == GROUP_CONFIGS.keys()


@given(st.fixed_dictionaries({}, optional=VALUES), st.sampled_from(sorted(VALUES)), st.text(max_size=8))
def test_a_change_is_allowed_or_holds_for_nobody(overrides: dict[str, str], name: str, value: str) -> None:
    try:
        check({name: value}, ShareSettings())
    except InvalidGroupConfig as problem:
        assert name in str(problem)
        assert repr(value) in str(problem)
        assert settings_with(ShareSettings(), {name: value}) == ShareSettings(), "nor does it hold if it is kept"
    assert changed(overrides, {name: value}) == {**overrides, name: value}
    assert name not in changed(overrides, {name: None})


def test_locks_are_as_long_as_the_configuration_lets_them_be() -> None:
    name = "share.record.lock.duration.ms"
    for value in ("14999", "60001"):
        with pytest.raises(InvalidGroupConfig, match="from 15000 to 60000"):
            check({name: value}, ShareSettings())
        check({name: value}, ShareSettings(shortest_lock=1.0, longest_lock=600.0))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1H", 3_600), ("pt1h30m", 5_400), ("P2D", 172_800), ("P1DT2H3M4.5S", 93_784.5), ("PT0S", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    found = ByDuration.parse(f"by_duration:{text}")
    assert (found.seconds, found.value) == (seconds, f"by_duration:{text}")


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1X", "P1Y", "PT-1H", "PT1H ", "PT1.H", "x:"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not allowed: earliest, latest or by_duration:PnDTnHnMnS"):
        ByDuration.parse(f"by_duration:{text}")


def test_start_of_settings() -> None:
    assert settings_with(ShareSettings(), {"share.auto.offset.reset": "earliest"}).start is ShareStart.EARLIEST
