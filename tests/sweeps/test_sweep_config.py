"""Sweeps as YAML and on the command line: what is written is read again, and what is wrong is refused."""

import dataclasses
import itertools
import re
from typing import Literal

import pytest
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import Recording
from popsim.experiments.registry import EXPERIMENTS
from popsim.sweeps import Sweep, make_sweep
from popsim.sweeps.sweep_config import config_text, read_config


@dataclasses.dataclass(frozen=True)
class Texts(Swept):
    """An experiment with settings of several types."""

    name = "texts"

    text: str = "any"
    maybe: str | None = None
    pair: tuple[str, str] = ("a", "b")
    mapping: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    flag: bool = False
    choice: Literal["a b", "-x", "null"] = "-x"
    number: float | None = 0.1


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "texts", Texts)


SWEEPS = [
    Sweep(
        Texts(
            text="- a\n 0:4", pair=("null", "1e3"), mapping={"a b": ("", "b"), "c": ()}, number=None, seed=4
        ),
        {"flag": [True, False], "maybe": ["None", None, "", "é\u2028"], "rate": [1e-7, 0.1, 3.0]},
        range(5, 8),
        members_per_cell=2,
        member_batch_size=1,
        recording=Recording("0 3", float16=True),
    ),
    Sweep(Texts(choice="null", flag=True), {"noise": [(0.1, 0.2), (0.3, 1e-5)]}, range(2)),
]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_is_read_as_it_was_written(sweep, tmp_path, capsys):
    opened = make_sweep(sweep, tmp_path / "a")
    again = read_config(opened.folder.config)
    assert again == opened.sweep == sweep and list(again.axes) == list(sweep.axes)
    assert repr(again.axes) == repr(sweep.axes) and repr(again.experiment) == repr(sweep.experiment)
    command = ["sweep", "--config", str(opened.folder.config), "--out", str(tmp_path / "b"), "--only-make"]
    main(command)
    assert (tmp_path / "b" / "sweep.yaml").read_text() == config_text(sweep)


HUNDRED = ", ".join(str(1 + i / 100) for i in range(100))
WRONG = {
    "a setting that is none": ("grid: {rat: 1}", "must be of settings of texts, got 'rat'. Perhaps .* rate"),
    "a misspelt entry": ("gird: {rate: 1}", "Perhaps you meant grid"),
    "a word for a number": ("settings: {n-units: few}", "n_units.* must be a whole number, got 'few'"),
    "the last seeds": ("seeds: 2147483640:2147483650", r"must be below 2\*\*31"),
    "seeds that end before they begin": ("seeds: 5:2", "must end after they begin"),
    "three axes of a hundred": (
        f"seeds: 0:1\nmembers_per_cell: 1\n"
        f"grid: {{rate: [{HUNDRED}], cost: [{HUNDRED}], hidden-noise: [{HUNDRED}]}}",
        "at most 20000 cells, got 1000000",
    ),
    "a repeated entry": ("seeds: 1\nseeds: 2", "each key once, got 'seeds' again in line 3"),
    "a repeated setting, spelt otherwise": ("settings: {n-units: 3, n_units: 4}", "each setting once"),
    "a setting that is an axis": (
        "settings: {rate: 0.1}\ngrid: {rate: [0.2]}",
        "must have none of the settings in .grid., got 'rate' in both",
    ),
}


def refused(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    message = capsys.readouterr().err
    assert end.value.code == 2 and message.count("\n") == 1 and len(message) < 1500
    return message


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_file_is_named_with_it(name, tmp_path, capsys):
    content, said = WRONG[name]
    (tmp_path / "c.yaml").write_text(f"experiment: texts\n{content}\n")
    message = refused(["sweep", "--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "sw")], capsys)
    assert re.search(said, message) and "c.yaml" in message, message
    assert not (tmp_path / "sw").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0:999999999"], "at most 1000000 members"),
        (["--grid", "r=0.1"], "--grid must be of settings of texts, got 'r'. Perhaps you meant rate"),
        (["--grid", "noise=1,2"], "--noise must be 2 numbers, got '1'"),
        (["--grid", "rate=0.1,,0.2"], "--grid must be such as learning-rate=1e-3,3e-3"),
        (["--members", "1000000000"], "at most 1000000, got 1000000000"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(arguments, said, tmp_path, capsys):
    assert said in refused(["sweep", "texts", *arguments, "--out", str(tmp_path / "sw")], capsys)


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"axes": {"rate": itertools.count(1)}}, "must have at most 2000 values"),
        ({"axes": {"mapping": [{"a": ("b",)}, {"a": ["b"]}]}}, "must have different values"),
        ({"seeds": range(10**9)}, "at most 1000000 members"),
        ({"axes": {"text": ["x" * 200, *(f"{i}" + "x" * 200 for i in range(1000))]}}, "at most 131072 bytes"),
    ],
)
def test_what_is_wrong_in_python_is_named(sweep, said, tmp_path, as_users_run):
    with pytest.raises(ValueError, match=said):
        make_sweep(Sweep(Texts(), **{"axes": {}, "seeds": range(2), **sweep}), tmp_path / "sw")
    assert not (tmp_path / "sw").exists()
