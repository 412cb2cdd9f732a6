"""Compiled programs that the commands keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from popsim.cli import _devices as cache
from popsim.cli import main
from popsim.cli._devices import keep_programs

OPTIONS = [f"jax_compilation_cache_{name}" for name in ("dir", "max_size")]
OPTIONS += ["jax_persistent_cache_min_compile_time_secs", "jax_enable_compilation_cache"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's cache folder for the time of the test, in which nothing is kept yet."""
    before = {name: jax.config.values[name] for name in OPTIONS}
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    begin(None)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


def begin(folder):
    """Begin a process in which JAX keeps programs in a folder, or in none."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_enable_compilation_cache", True)
    reset_cache()


def computed():
    """Numbers of a program that is new to this process."""
    return np.asarray(jax.jit(lambda x: jnp.sin(x) @ jnp.exp(x.T))(jnp.arange(12.0).reshape(3, 4) / 7))


def test_the_next_command_loads_programs_with_the_same_numbers(home, capsys):
    loaded = []
    listener = lambda event, **_: loaded.append(event) if event.endswith("cache_hits") else None  # noqa: E731
    jax.monitoring.register_event_listener(listener)
    try:
        with pytest.raises(SystemExit):
            main(["info", "no-such-run"])
        first = computed()
        assert list((home / "popsim").glob("programs-*/*-cache")) and not loaded
        assert jax.config.values["jax_compilation_cache_max_size"] == cache.MOST_BYTES
        begin(None)
        keep_programs()
        np.testing.assert_array_equal(computed(), first)
        assert loaded
    finally:
        jax.monitoring.unregister_event_listener(listener)


def test_what_the_user_has_set_in_jax_stays(home, tmp_path):
    begin(str(tmp_path / "mine"))
    keep_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path / "mine")
    begin(None)
    jax.config.update("jax_enable_compilation_cache", False)
    keep_programs()
    assert jax.config.values["jax_compilation_cache_dir"] is None and not list(home.iterdir())
