"""Sweeps as YAML: what is written is read again, and what is hostile is refused before it is expanded."""

import dataclasses
import itertools
import os
import pathlib
import random
import re
import tracemalloc
from typing import Any, Literal

import numpy as np
import pytest
from short_form import every_nth, mostly_in_full
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import Recording
from popsim.experiments.registry import EXPERIMENTS
from popsim.sweeps import Sweep, make_sweep
from popsim.sweeps.sweep_config import config_text, parse_axes, read_config

TEXTS = [
    *[
        "",
        " ",
        "a b",
        " a",
        "a ",
        "-a",
        "--b c",
        "-",
        "-1",
        "0:4",
        "1e3",
        "1",
        "01",
        "null",
        "None",
        "~",
        "yes",
    ],
    *[
        "no",
        "true",
        "False",
        ".nan",
        ".inf",
        "nan",
        "a,b",
        "a=b",
        "a: b",
        "a #b",
        "# a",
        "'",
        '"',
        "'a'",
        '"a"',
    ],
    *[
        "[a]",
        "{a: b}",
        "&a",
        "*a",
        "!!int 1",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "<<",
        "=",
        "?",
        "? a",
        ":",
        "...",
        "---",
    ],
    *[
        "\n",
        "a\nb",
        "a\n\nb\n",
        "\ta",
        "a\tb",
        "\r\n",
        "\x00",
        "\x07",
        "\x1b[0m",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
    ],
    *["é", "日本語", "😀", "\\", "\\n", "a\\", "2026-11-25", "0x10", "0o7", "1_000", "a" * 300, "a b " * 100],
]
Choice = Literal["a b", "-x", "", "null", "1e3", 1, True]


@dataclasses.dataclass(frozen=True)
class Texts(Swept):
    """An experiment with settings of all types."""

    name = "texts"

    text: str = "any"
    maybe: str | None = None
    pair: tuple[str, str] = ("a", "b")
    many: tuple[str, ...] = ()
    rows: tuple[tuple[str, float], ...] = ()
    table: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    either: str | float | tuple[float, ...] = 0.0
    anything: Any = None
    gains: np.ndarray | None = None
    flag: bool = False
    choice: Choice = "-x"
    number: float | None = 0.1


def settings_with(text, draw):
    number = draw.choice([0.0, -1.5, 1.2e-38, 3e38, 3.0, 1e-5, 123456789.123])
    return {
        "text": text,
        "maybe": draw.choice([text, None]),
        "pair": (text, draw.choice(TEXTS)),
        "many": tuple(draw.choices(TEXTS, k=draw.randrange(4))),
        "rows": ((text, number), ("a", -number)),
        "table": {text: (text, "b"), draw.choice(TEXTS): ()},
        "either": draw.choice([text, number, (number, 1.0)]),
        "anything": draw.choice([text, number, 3, True, None, (text, (1, None, text)), {"a": {text: 0.5}}]),
        "gains": draw.choice([(number, 2.0), ((1.0, 2.0), (3.0, 4.0)), None]),
        "flag": draw.choice([True, False]),
        "choice": draw.choice(["a b", "-x", "", "null", "1e3"]),
        "number": draw.choice([number, None]),
    }


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "texts", Texts)


@pytest.mark.parametrize("text", every_nth(TEXTS, 5, name_of=lambda text: repr(text)[:20]))
def test_a_sweep_is_read_as_it_was_written(text, tmp_path):
    draw = random.Random(text)
    for _ in range(5):
        settings, others = settings_with(text, draw), settings_with(draw.choice(TEXTS), draw)
        names = draw.sample(sorted(settings), 3)
        axes = {name: (settings[name], others[name]) for name in names if settings[name] != others[name]}
        recording = Recording(draw.choice(["logged", "0 3", "every 2"]), draw.choice([True, False]))
        sweep = Sweep(Texts(**settings), axes, range(5, 8), draw.choice([None, 2]), 1, recording)
        file = tmp_path / "sweep.yaml"
        file.write_bytes(config_text(sweep).encode())
        again = read_config(file)
        assert again.axes == sweep.axes and list(again.axes) == list(sweep.axes)
        kept = [field.name for field in dataclasses.fields(Texts) if field.name not in axes]
        for name in kept:
            before, now = (getattr(each.experiment, name) for each in (sweep, again))
            assert now == before and type(now) is type(before), name
        others = ("seeds", "members_per_cell", "member_batch_size", "recording")
        assert all(getattr(again, name) == getattr(sweep, name) for name in others)


def test_the_sweep_of_a_folder_is_made_again_from_its_config(tmp_path, capsys):
    settings = settings_with("- a\n 0:4", random.Random(0))
    sweep = Sweep(Texts(**settings), {"text": TEXTS[:4]}, range(2))
    opened = make_sweep(sweep, tmp_path / "a")
    assert opened.sweep == sweep
    command = ["sweep", "--config", str(opened.folder.config), "--out", str(tmp_path / "b"), "--only-make"]
    main(command)
    first, second = ((tmp_path / name / "sweep.yaml").read_text() for name in "ab")
    assert first == second


def test_texts_are_taken_whole_on_the_command_line():
    axes = parse_axes(
        Texts, ["text=a b,-c,0:4,1e3,null", "pair=a b,-c d", "either=1e-3,x,1 2", "flag=true,False"]
    )
    assert axes == {
        "text": ("a b", "-c", "0:4", "1e3", "null"),
        "pair": (("a", "b"), ("-c", "d")),
        "either": (1e-3, "x", (1.0, 2.0)),
        "flag": (True, False),
    }


ALIASES = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
MERGES = "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
SIX = "settings: {text: &a [x, x, x, x, x, x, x, x, x]" + "".join(
    f", {name}: &{mark} [{', '.join([f'*{before}'] * 9)}]"
    for name, before, mark in zip(("rate", "cost", "seed", "n-units"), "abcd", "bcde", strict=True)
)
HUNDRED = ", ".join(str(1 + i / 100) for i in range(100))
HOSTILE = {
    "aliases in six settings": (
        SIX + ", noise: [*e, *e, *e, *e, *e, *e, *e, *e, *e]}",
        "at most 12000 values, with",
    ),
    "aliases in lists": ("a: &a [x, x, x, x, x, x, x, x]\n" + ALIASES, "at most 12000 values, with"),
    "aliases in merged mappings": ("a: &a {x: 1}\n" + MERGES, "at most 12000 values, with"),
    "a mapping that contains itself": ("settings: &a {text: *a}", "must not contain itself"),
    "a list that contains itself": ("grid: &a [*a]", "must not contain itself"),
    "nested lists": ("grid: " + "[" * 100_000, "nested at most 20 deep"),
    "nested mappings": ("grid: " + "{a: " * 30_000, "nested at most 20 deep"),
    "nested dashes": ("grid:\n  " + "- " * 30_000, "nested at most 20 deep"),
    "nested questions": ("? " * 30_000, "nested at most 20 deep|text as keys"),
    "many values": (f"grid: {{rate: [{', '.join(map(str, range(20_000)))}]}}", "at most 12000 values"),
    "values of an axis": (f"grid: {{rate: [{', '.join(map(str, range(1, 3000)))}]}}", "at most 2000 values"),
    "many anchors": (
        f"grid: {{text: [{', '.join(f'&a{i} x' for i in range(15_000))}]}}",
        "at most 131072 bytes|12000",
    ),
    "many axes": (f"grid: {{{', '.join(f'a{i}: 1' for i in range(3000))}}}", "must be of settings of texts"),
    "a long text": (f"settings: {{text: {'x' * 200_000}}}", "at most 131072 bytes"),
    "a long number": (f"settings: {{n-units: {'9' * 100_000}}}", "must have whole numbers for n-units"),
    "a long float": (f"settings: {{rate: {'9' * 100_000}}}", "must be finite"),
    "a long key": (f"{'x' * 100_000}: 1", "YAML"),
    "a long name of a setting": (f"settings: {{? {'x' * 100_000} : 1}}", "must be of settings of texts"),
    "a long experiment": (f"experiment: {'x' * 100_000}", "each key once"),
    "a long comment": ("#" + "x" * 3_000_000, "at most 131072 bytes"),
    "a billion seeds": ("seeds: 0:999999999", "at most 1000000 members, got 999999999"),
    "the last seeds": ("seeds: 2147483640:2147483650", r"must be below 2\*\*31"),
    "a seed of many digits": (f"seeds: 0:{'9' * 5000}", "must be whole numbers such as 0:20"),
    "a list of seeds": ("seeds: [0, 1, 2]", "must be whole numbers such as 0:20"),
    "four axes of a hundred": (
        f"members_per_cell: 1\ngrid: {{rate: [{HUNDRED}], cost: [{HUNDRED}], hidden-noise: [{HUNDRED}], "
        f"n-units: [{', '.join(map(str, range(1, 101)))}]}}",
        "at most 1000000 members, got 500000000",
    ),
    "three axes of a hundred": (
        f"seeds: 0:1\nmembers_per_cell: 1\n"
        f"grid: {{rate: [{HUNDRED}], cost: [{HUNDRED}], hidden-noise: [{HUNDRED}]}}",
        "at most 20000 cells, got 1000000",
    ),
    "a million cells": ("seeds: 0:1000000\nmembers_per_cell: 1", "at most 20000 cells, got 1000000"),
    "a billion members": ("settings: {batch-size: 2147483648}", r"must be below 2\*\*31"),
    "a billion batches kept": (
        "settings: {n-batches: 2147483647, log-step: 10000}\nkeep: every 1",
        "at most 1000000 batches",
    ),
    "a billion batches in all": (
        "settings: {n-batches: 2147483647, log-step: 10000}\nkeep: all",
        "at most 1000000 batches",
    ),
    "a billion on a logarithm": ("keep: log 999999999", "at most 1000000 batches"),
    "a billion log points": (
        "settings: {n-batches: 2147483647, log-step: 1}",
        "at most 1000000 log points",
    ),
    "a tag": ("settings: !!python/object/apply:os.system [true]", "must have no tags"),
    "bytes": ("settings: {text: !!binary aGk=}", "must have no tags"),
    "a repeated entry": ("seeds: 1\nseeds: 2", "each key once, got 'seeds' again in line 3"),
    "a repeated setting": (
        "settings: {n-units: 3, n-units: 4}",
        "each key once, got 'n-units' again in line 2",
    ),
    "a repeated setting in quotes": ('settings: {n-units: 3, "n-units": 4}', "each key once"),
    "a repeated setting, spelt otherwise": ("settings: {n-units: 3, n_units: 4}", "each setting once"),
    "a setting that is an axis": (
        "settings: {rate: 0.1}\ngrid: {rate: [0.2]}",
        "`settings` in .* must have none of the settings in `grid`, got 'rate' in both",
    ),
    "a list as key": ("? [a, b]\n: 1", "must have text as keys"),
    "two documents": ("---\nexperiment: texts", "single document"),
    "a list for a truth": ("float16: [1]", "must be true or false"),
    "a mapping for batches": ("keep: {a: 1}", 'must be text|must be "logged"'),
    "a control character": ('settings: {text: "\x00"}', "YAML"),
}


def refused(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    message = capsys.readouterr().err
    assert end.value.code == 2 and message.count("\n") == 1 and len(message) < 1500
    return message


HOSTILE_IN_SHORT = sorted({*HOSTILE} - {"many axes", "many values"})[::6]


@pytest.mark.parametrize("name", mostly_in_full(HOSTILE, HOSTILE_IN_SHORT))
def test_what_is_hostile_is_refused_before_it_is_expanded(name, tmp_path, capsys):
    content, said = HOSTILE[name]
    (tmp_path / "c.yaml").write_text(f"experiment: texts\n{content}\n")
    tracemalloc.start()
    try:
        message = refused(
            ["sweep", "--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "sw")], capsys
        )
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert re.search(said, message), message
    assert not (tmp_path / "sw").exists()


@pytest.mark.parametrize(
    "kind", ["fifo", "device", "folder", "link to a device", "nothing", "link to a file"]
)
def test_only_a_plain_file_is_read_as_config(kind, tmp_path, capsys):
    path = tmp_path / "c.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = pathlib.Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind.startswith("link"):
        (tmp_path / "real").write_text("experiment: texts\nseeds: 5:2\n")
        path.symlink_to("/dev/zero" if kind.endswith("device") else "real")
    message = refused(["sweep", "--config", str(path), "--out", str(tmp_path / "sw")], capsys)
    said = "must end after they begin" if kind == "link to a file" else "--config must be a YAML file"
    assert said in message and not (tmp_path / "sw").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0:999999999"], "at most 1000000 members"),
        (["--seeds", "0:1000000", "--members-per-cell", "1"], "at most 20000 cells"),
        (
            ["--grid", f"rate={HUNDRED}", "--grid", f"cost={HUNDRED}", "--grid", f"hidden-noise={HUNDRED}"],
            "members",
        ),
        (["--grid", f"rate={','.join(map(str, range(3000)))}"], "at most 2000 values"),
        (["--members", "1000000000"], "at most 1000000, got 1000000000"),
        (["--n-batches", "2147483647", "--log-step", "10000", "--keep", "all"], "at most 1000000 batches"),
    ],
)
def test_the_command_line_is_bounded_alike(arguments, said, tmp_path, capsys):
    assert said in refused(["sweep", "texts", *arguments, "--out", str(tmp_path / "sw")], capsys)


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"axes": {"rate": itertools.count(1)}}, "must have at most 2000 values"),
        ({"axes": {"n_units": range(1, 10**12)}}, "must have at most 2000 values"),
        ({"axes": {f"a{i}": [1] for i in range(1000)}}, "at most 16 settings"),
        ({"axes": [("rate", [1])]}, "`axes` must be lists of values by setting"),
        ({"axes": {"rate": np.array(1)}}, "must be a list of values"),
        ({"axes": {"table": [{"a": ("b",)}, {"a": ["b"]}]}}, "must have different values"),
        ({"seeds": range(10**30)}, r"must be below 2\*\*31"),
        ({"seeds": range(10**9)}, "at most 1000000 members"),
        ({"seeds": itertools.count()}, "`seeds` must be whole numbers"),
        ({"seeds": range(10**6), "members_per_cell": 3}, "at most 20000 cells"),
        ({"axes": {"text": ["x" * 200, *(f"{i}" + "x" * 200 for i in range(1000))]}}, "at most 131072 bytes"),
    ],
)
def test_sweeps_of_the_api_are_bounded_alike(sweep, said, tmp_path, as_users_run):
    with pytest.raises(ValueError, match=said):
        make_sweep(Sweep(Texts(), **{"axes": {}, "seeds": range(2), **sweep}), tmp_path / "sw")
    assert not (tmp_path / "sw").exists()
