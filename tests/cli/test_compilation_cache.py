"""Compiled programs that the commands keep: loaded as they were written, or not at all."""

import contextlib
import inspect
import os
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compilation_cache
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from small_training import KEY, assert_same, build, train

import popsim
from popsim.cli import _compilation_cache as cache
from popsim.cli import main
from popsim.cli._compilation_cache import (
    SealedPrograms,
    cache_folder,
    keep_programs,
    open_programs,
    processor_digest,
    remove_oldest,
)

NAME, CONTENT = "jit_f-12ab", bytes(range(256))
OPTIONS = (
    "compilation_cache_dir",
    "persistent_cache_min_compile_time_secs",
    "persistent_cache_enable_xla_caches",
)


@pytest.fixture
def programs(tmp_path):
    """Programs in a folder of their own."""
    return opened(tmp_path / "cache")


def opened(folder):
    found = open_programs(str(folder))
    assert found is not None
    return found[0]


def files(folder):
    return sorted(path for path in folder.rglob("*.program*"))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """As in a command: a folder in which JAX keeps its programs, for the time of the test."""
    before = {f"jax_{name}": jax.config.values[f"jax_{name}"] for name in OPTIONS}
    monkeypatch.setattr(compilation_cache, "get_file_cache", compilation_cache.get_file_cache)
    monkeypatch.setenv("POPSIM_CACHE", str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)
    reset_cache()
    keep_programs()
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


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
    reset_cache()
    with counted_loads() as loaded:
        np.testing.assert_array_equal(computed(), first)
    assert loaded


def test_damaged_programs_are_compiled_again(kept):
    first = computed()
    for damage in (flipped, lambda content: content[:-9], lambda content: b""):
        written = [path.read_bytes() for path in files(kept)]
        for path in files(kept):
            path.write_bytes(damage(path.read_bytes()))
        with counted_loads() as loaded:
            np.testing.assert_array_equal(computed(), first)
        assert not loaded and len(files(kept)) == len(written)
        with counted_loads() as loaded:
            np.testing.assert_array_equal(computed(), first)
        assert loaded


@pytest.mark.slow
def test_training_with_loaded_programs_gives_the_same_bits(kept):
    ensemble, trained = popsim.make_ensemble(build, 2, key=KEY), []
    for _ in range(2):
        jax.clear_caches()
        with counted_loads() as loaded:
            trained.append(train(2, ensemble=ensemble))
    assert_same(*trained)
    assert len(loaded) > 10


def test_commands_keep_programs_and_write_nothing_before_they_compile(kept, capsys):
    jax.config.update("jax_compilation_cache_dir", None)
    with pytest.raises(SystemExit):
        main(["info", "no-such-run"])
    assert jax.config.values["jax_compilation_cache_dir"] == str(kept) and not kept.exists()


def flipped(content: bytes, bit: int = 1234) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8 % len(content)] ^= 1 << bit % 8
    return bytes(damaged)


def test_every_damage_is_found(programs, tmp_path):
    programs.put(NAME, CONTENT)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    assert programs.get(NAME) == CONTENT and programs.get("jit_g-12ab") is None
    damaged = [flipped(whole, bit) for bit in range(0, 8 * len(whole), 7)]
    damaged += [whole[:n] for n in range(0, len(whole), 13)] + [whole + b"x", CONTENT]
    for content in damaged:
        path.write_bytes(content)
        assert programs.get(NAME) is None
    programs.put(NAME, CONTENT)
    assert path.read_bytes() == whole
    programs.put("jit_g-12ab", b"g")
    other = next(file for file in files(tmp_path) if file != path)
    other.replace(path)  # the program of another key
    assert programs.get(NAME) is None
    with path.open("wb") as large:
        large.truncate(10**12)
    assert programs.get(NAME) is None


@pytest.mark.skipif(sys.platform == "win32", reason="has other links and pipes")
def test_links_and_pipes_are_neither_read_nor_followed(programs, tmp_path):
    programs.put(NAME, CONTENT)
    (path,) = files(tmp_path)
    mine = tmp_path / "mine"
    path.rename(mine)
    whole = mine.read_bytes()
    for place in (lambda: path.symlink_to(mine), lambda: os.mkfifo(path), lambda: path.symlink_to("gone")):
        place()
        assert programs.get(NAME) is None
        programs.put(NAME, b"new")
        assert programs.get(NAME) == b"new" and mine.read_bytes() == whole
        path.unlink()
    path.mkdir()
    assert programs.get(NAME) is None
    programs.put(NAME, b"new")
    assert programs.get(NAME) is None and files(tmp_path) == [path]


def test_a_folder_that_vanishes_or_cannot_be_written_changes_nothing(programs, tmp_path, monkeypatch):
    (folder,) = (tmp_path / "cache").iterdir()
    folder.rmdir()
    programs.put(NAME, CONTENT)
    assert programs.get(NAME) is None and not folder.exists()
    folder.mkdir()
    programs.put(NAME, CONTENT)  # after a failure it does not try again
    assert not files(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    fresh = SealedPrograms(folder)
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        fresh.put(NAME, CONTENT)
    assert not files(tmp_path)


def test_a_folder_that_cannot_be_used_is_said_once(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("mine")
    monkeypatch.delenv("POPSIM_CACHE", raising=False)
    assert open_programs(str(file)) is None
    monkeypatch.setenv("POPSIM_CACHE", str(file))
    with pytest.warns(UserWarning, match="programs are not kept: .*file"):
        assert open_programs(str(file)) is None
    assert file.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has other owners")
def test_a_folder_that_others_could_write_to_is_not_used(tmp_path, monkeypatch):
    home = tmp_path / "cache"
    opened(home)
    (folder,) = home.iterdir()
    for each, mode in ((home, 0o770), (folder, 0o707)):
        each.chmod(mode)
        with pytest.warns(UserWarning, match="nobody else may write to it"):
            assert open_programs(str(home)) is None
        each.chmod(0o700)
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="must belong to you"):
        assert open_programs(str(home)) is None


def test_writers_at_once_leave_whole_programs(tmp_path):
    contents = {f"jit_{i}": os.urandom(10_000) for i in range(8)}
    wrong = []

    def use():
        own = opened(tmp_path / "cache")
        for _ in range(5):
            for key, content in contents.items():
                own.put(key, content)
                if own.get(key) != content:
                    wrong.append(key)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(files(tmp_path)) == len(contents)


def test_the_least_recently_used_programs_are_removed(tmp_path):
    home, (old, own) = tmp_path / "cache", ("jaxlib-0.9.1-" + "a" * 16, "jaxlib-0.10.2-" + "b" * 16)
    for name in (old, own, "mine"):
        (home / name).mkdir(parents=True)
    (home / "mine" / f"{'0' * 64}.program").write_bytes(bytes(1000))
    (home / own / "notes.txt").write_bytes(bytes(1000))
    for age, name in ((3, old), (2, own), (1, own), (5, own)):
        path = home / name / f"{str(age) * 64}.program"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    left_over = home / own / f"{'7' * 64}.program.0123abcd.partial"
    left_over.write_bytes(b"half")
    assert remove_oldest(home, 400) == 0 and left_over.exists()
    os.utime(left_over, (1e9, 1e9))
    assert remove_oldest(home, 350) == 150
    assert not left_over.exists() and not (home / old).exists()
    assert sorted(path.name[0] for path in (home / own).iterdir()) == ["1", "2", "n"]
    assert len(files(home / "mine")) == 1


def test_the_folder_stays_bounded_and_keeps_what_is_used(tmp_path, monkeypatch):
    home = tmp_path / "cache"
    monkeypatch.setattr(cache, "MOST_BYTES", 4000)
    monkeypatch.setattr(inspect.unwrap(remove_oldest), "__defaults__", (4000,))
    full = opened(home)
    full.put("used", b"!")
    for i in range(20):
        full.put(f"jit_{i}", bytes(450))
        for path in files(home):
            os.utime(path, (1e9 + i, 1e9 + i))
        assert full.get("used") == b"!"
        assert sum(path.stat().st_size for path in files(home)) <= 4000
    full.put("jit_large", bytes(1000))  # would drive out many others
    assert full.get("jit_19") and full.get("jit_large") is None and full.get("jit_0") is None


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
