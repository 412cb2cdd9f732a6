"""Compiled programs that the commands keep: loaded as they were written, or not at all."""

import contextlib
import inspect
import os
import shutil
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from small_training import KEY, assert_same, build, train

import popsim
from popsim.cli import _compilation_cache as cache
from popsim.cli import main
from popsim.cli._compilation_cache import (
    cache_folder,
    close_programs,
    keep_programs,
    open_programs,
    processor_digest,
    remove_oldest,
)

NAME, CONTENT = "jit_f-12ab-cache", bytes(range(256))
OPTIONS = (
    "compilation_cache_dir",
    "persistent_cache_min_compile_time_secs",
    "persistent_cache_enable_xla_caches",
)


def opened(home):
    folder = open_programs(home)
    assert folder is not None
    return folder


@pytest.fixture
def program(tmp_path):
    """A program that a command has kept."""
    path = opened(tmp_path / "cache") / NAME
    path.write_bytes(CONTENT)
    close_programs(path.parent)
    return path


def files(folder):
    return sorted(folder.rglob("*-cache"))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """As in a command: a folder in which JAX keeps its programs, for the time of the test."""
    before, listeners = {f"jax_{name}": jax.config.values[f"jax_{name}"] for name in OPTIONS}, []
    register = jax.monitoring.register_event_listener

    def register_for_test(listener):
        if listener.__module__ == cache.__name__:
            listeners.append(listener)
        register(listener)

    monkeypatch.setattr(jax.monitoring, "register_event_listener", register_for_test)
    monkeypatch.setenv("POPSIM_CACHE", str(tmp_path / "cache"))
    next_command(None)
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    for each in listeners:
        jax.monitoring.unregister_event_listener(each)
    reset_cache()


def next_command(home):
    """End a command and begin the next one."""
    for folder in () if home is None else home.iterdir():
        close_programs(folder)
    jax.config.update("jax_compilation_cache_dir", None)
    reset_cache()
    keep_programs()


@contextlib.contextmanager
def counted_loads():
    """Counts the programs that are loaded rather than compiled."""
    loaded = []

    def listen(event: str, **_) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            loaded.append(event)

    jax.monitoring.register_event_listener(listen)
    try:
        yield loaded
    finally:
        jax.monitoring.unregister_event_listener(listen)


def computed():
    """Numbers of a program that is new to this process."""
    return np.asarray(jax.jit(lambda x: jnp.sin(x) @ jnp.exp(x.T))(jnp.arange(12.0).reshape(3, 4) / 7))


def test_a_program_is_loaded_with_the_same_numbers(kept):
    assert not kept.exists()
    first = computed()
    assert files(kept) and all(path.stat().st_mode & 0o077 == 0 for path in (kept, *kept.iterdir()))
    next_command(kept)
    with counted_loads() as loaded:
        np.testing.assert_array_equal(computed(), first)
    assert loaded


def test_damaged_programs_are_compiled_again(kept):
    first = computed()
    for damage in (flipped, lambda content: content[:-9], lambda content: b""):
        next_command(kept)
        for path in files(kept):
            path.write_bytes(damage(path.read_bytes()))
        with counted_loads() as loaded:
            np.testing.assert_array_equal(computed(), first)
        assert not loaded and files(kept)
        next_command(kept)
        with counted_loads() as loaded:
            np.testing.assert_array_equal(computed(), first)
        assert loaded


def test_programs_of_a_command_that_was_killed_are_compiled_again(kept):
    first = computed()
    jax.config.update("jax_compilation_cache_dir", None)
    reset_cache()
    keep_programs()
    with counted_loads() as loaded:
        np.testing.assert_array_equal(computed(), first)
    assert not loaded


@pytest.mark.slow
@pytest.mark.full  # in short: test_a_program_is_loaded_with_the_same_numbers
def test_training_with_loaded_programs_gives_the_same_bits(kept):
    ensemble, trained = popsim.make_ensemble(build, 2, key=KEY), []
    for _ in range(2):
        jax.clear_caches()
        with counted_loads() as loaded:
            trained.append(train(2, ensemble=ensemble))
    assert_same(*trained)
    assert len(loaded) > 10


def test_commands_keep_programs_and_write_nothing_before_they_compile(kept, capsys):
    with pytest.raises(SystemExit):
        main(["info", "no-such-run"])
    assert not kept.exists()
    computed()
    assert jax.config.values["jax_compilation_cache_dir"].startswith(f"{kept}{os.sep}") and files(kept)


def flipped(content: bytes, bit: int = 1234) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8 % len(content)] ^= 1 << bit % 8
    return bytes(damaged)


def test_every_damage_is_found(program, tmp_path):
    opened(tmp_path / "cache")
    assert program.read_bytes() == CONTENT
    damaged = [flipped(CONTENT, bit) for bit in range(0, 8 * len(CONTENT), 7)]
    damaged += [CONTENT[:n] for n in range(0, len(CONTENT), 13)] + [CONTENT + b"x"]
    for content in damaged:
        program.write_bytes(content)
        opened(tmp_path / "cache")
        assert not program.exists()
    program.write_bytes(CONTENT)
    other = program.with_name("jit_g-12ab-cache")
    other.write_bytes(CONTENT[::-1])
    close_programs(program.parent)
    other.replace(program)  # the program of another key
    opened(tmp_path / "cache")
    assert not files(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"jit_f-12ab-cache": null}', b"[" * 10**5])
def test_programs_without_a_digest_are_removed(content, program, tmp_path):
    (program.parent / cache.DIGESTS).write_bytes(content)
    opened(tmp_path / "cache")
    assert not files(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="has other links and pipes")
def test_links_and_pipes_are_neither_read_nor_followed(program, tmp_path):
    mine = tmp_path / "mine"
    program.rename(mine)
    for place in (
        lambda: program.symlink_to(mine),
        lambda: os.mkfifo(program),
        lambda: program.symlink_to("gone"),
    ):
        place()
        opened(tmp_path / "cache")
        assert not os.path.lexists(program) and mine.read_bytes() == CONTENT
    program.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("POPSIM_CACHE", raising=False)
        assert open_programs(tmp_path / "cache") is None


def test_a_folder_that_vanishes_or_cannot_be_written_changes_nothing(program, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    program.with_name("jit_g-12ab-cache").write_bytes(CONTENT)
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        close_programs(program.parent)
    opened(tmp_path / "cache")
    assert files(tmp_path) == [program]
    shutil.rmtree(program.parent)
    close_programs(program.parent)
    assert not program.parent.exists()


def test_a_folder_that_cannot_be_used_is_said_once(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("mine")
    monkeypatch.delenv("POPSIM_CACHE", raising=False)
    assert open_programs(file) is None
    monkeypatch.setenv("POPSIM_CACHE", str(file))
    with pytest.warns(UserWarning, match="programs are not kept: .*file"):
        assert open_programs(file) is None
    assert file.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has other owners")
def test_a_folder_that_others_could_write_to_is_not_used(tmp_path, monkeypatch):
    home = tmp_path / "cache"
    opened(home)
    (folder,) = home.iterdir()
    for each, mode in ((home, 0o770), (folder, 0o707)):
        each.chmod(mode)
        with pytest.warns(UserWarning, match="nobody else may write to it"):
            assert open_programs(home) is None
        each.chmod(0o700)
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="must belong to you"):
        assert open_programs(home) is None


def test_commands_at_once_leave_whole_programs(tmp_path):
    """What one of them removes, because no other has ended, is compiled again."""
    contents = {f"jit_{i}-cache": os.urandom(10_000) for i in range(8)}

    def use():
        folder = opened(tmp_path / "cache")
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        close_programs(folder)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened(tmp_path / "cache")
    assert all(path.read_bytes() == contents[path.name] for path in files(tmp_path))


def test_the_oldest_programs_are_removed(tmp_path):
    home, (old, current) = tmp_path / "cache", ("jaxlib-0.9.1-" + "a" * 16, "jaxlib-0.10.2-" + "b" * 16)
    for name in (old, current, "mine"):
        (home / name).mkdir(parents=True)
    (home / "mine" / "0-cache").write_bytes(bytes(1000))
    (home / current / "notes.txt").write_bytes(bytes(1000))
    for age, name in ((3, old), (2, current), (1, current), (5, current)):
        path = home / name / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    remove_oldest(home, 400)
    assert len(files(home / current)) == 3
    remove_oldest(home, 350)
    assert not files(home / old)
    assert sorted(path.name[0] for path in (home / current).iterdir()) == ["1", "2", "n"]
    assert len(files(home / "mine")) == 1


def test_the_folder_stays_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect.unwrap(remove_oldest), "__defaults__", (4000,))
    folder = opened(tmp_path / "cache")
    for i in range(20):
        (folder / f"jit_{i}-cache").write_bytes(bytes(450))
        os.utime(folder / f"jit_{i}-cache", (1e9 + i, 1e9 + i))
        close_programs(folder)
        assert sum(path.stat().st_size for path in files(folder)) <= 4000
    assert (folder / "jit_19-cache").exists() and not (folder / "jit_0-cache").exists()


FIRST = "processor\t: 0\nmodel name\t: A\ncpu MHz\t\t: 2100.5\nflags\t\t: fpu avx2\n\n"
INTEL = f"{FIRST}processor\t: 1\nmodel name\t: B\nflags\t\t: fpu\n\n"


def test_programs_belong_to_a_kind_of_processor(monkeypatch):
    assert processor_digest() == processor_digest()
    assert [*cache._first_processor(INTEL.splitlines(keepends=True))] == ["A", "fpu avx2"]
    own = processor_digest()
    monkeypatch.setattr("platform.machine", lambda: "another")
    assert processor_digest() != own


@pytest.mark.parametrize(
    ("system", "variables", "folder"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/popsim"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "/scratch"}, "/scratch/popsim"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, "/home/me/.cache/popsim"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/popsim"),
        ("linux", {"HOME": "/home/me", "POPSIM_CACHE": "~/programs"}, "/home/me/programs"),
        ("win32", {"LOCALAPPDATA": "/c/Local"}, "/c/Local/popsim/Cache"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="has other paths")
def test_the_folder_is_that_of_the_system(system, variables, folder, monkeypatch):
    for name in ("XDG_CACHE_HOME", "POPSIM_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", system)
    assert str(cache_folder()) == folder


@pytest.mark.parametrize("way", ["off", "JAX's own"])
def test_it_can_be_turned_off(way, kept, monkeypatch):
    monkeypatch.setenv("POPSIM_CACHE", "off" if way == "off" else str(kept))
    before = None if way == "off" else "/somewhere/else"
    jax.config.update("jax_compilation_cache_dir", before)
    keep_programs()
    assert jax.config.values["jax_compilation_cache_dir"] == before
