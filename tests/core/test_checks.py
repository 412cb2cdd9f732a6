import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim._shared.checks import (
    check_finite,
    check_non_negative,
    check_positive,
    check_positive_int,
    check_same_dt,
    memory_of_machine,
    warn_caller_once,
)

INF, NAN = float("inf"), float("nan")
MS, DAY = np.timedelta64(20, "ms"), np.datetime64("2020-01-01")
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    "check, good, bad",
    [
        (check_positive_int, [1, np.int64(3)], [0, -1, True, 1.0, MS]),
        (check_finite, [-1.0, [0.0, 1.0], jnp.zeros(3)], [NAN, [0.0, INF], MS, [MS], DAY, 1j]),
        (check_positive, [1, 0.5, np.ones(2)], [0.0, NAN, INF, [1.0, -1.0]]),
        (check_non_negative, [0, [0.0, 2.0]], [-1e-9, NAN, [1.0, -1.0]]),
    ],
)
def test_checks_accept_the_good_and_name_the_bad(check, good, bad):
    for value in good:
        check("x", value)
    for value in bad:
        with pytest.raises(ValueError, match="`x` must be"):
            check("x", value)


def test_time_steps_are_the_same_to_rounding():
    check_same_dt(0.1 + 0.2, 0.3, "model")
    for dt in (0.301, NAN):
        with pytest.raises(ValueError, match=rf"`dt` must be that of the model, 0\.3 s, got {dt} s"):
            check_same_dt(dt, 0.3, "model")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/job/step\n", {"job/step/memory.max": "max\n", "job/memory.max": "4096\n"}, 4096),
        (
            "3:cpu:/x\n2:memory:/job\n",
            {"memory/job/memory.limit_in_bytes": "2048\n", "memory/memory.limit_in_bytes": f"{2**63}\n"},
            2048,
        ),
        ("0::/\n", {"memory.max": "max\n"}, 2**20),
    ],
)
def test_the_memory_is_what_control_groups_allow(groups, limits, expected, tmp_path, monkeypatch):
    pages = {"SC_PAGE_SIZE": 2**10, "SC_PHYS_PAGES": 2**10}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    files = {f"sys/fs/cgroup/{name}": text for name, text in limits.items()} | {"proc/self/cgroup": groups}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_of_machine(tmp_path) == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda dt: popsim.Timeline(dt, 3),
        lambda dt: popsim.NetworkModel(popsim.networks.GRUNetwork(1, 2, 1, key=KEY), dt=dt),
        lambda dt: popsim.analysis.behaviour.peak_speed(np.ones((2, 3)), dt=dt),
    ],
)
def test_a_step_of_many_seconds_is_warned_of(build):
    build(1.0)  # of a trial without a clock, such as one choice
    warn_caller_once.cache_clear()
    with pytest.warns(UserWarning, match="`dt` should be in seconds, got 20 s: for 20 ms give 0.02"):
        build(20.0)
