"""Sweeps in files, on the command line and in Python: what is written is read, what is wrong is named."""

import dataclasses
import re
import warnings
from typing import Literal

import pytest
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import CenterOut, Recording
from popsim.experiments.registry import EXPERIMENTS
from popsim.sweeps import Sweep, make_sweep, open_sweep
from popsim.sweeps.folder import parse_axes, read_config


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


ODD = {"text": "- a\n 0:4", "pair": ("null", "1e3"), "mapping": {"a b": ("", "b"), "c": ()}, "number": None}
SWEEPS = [
    Sweep(
        Texts(**ODD, seed=4),
        {"flag": [True, False], "maybe": ["None", None, "", "é\u2028"], "rate": [1e-7, 0.1, 3.0]},
        range(5, 8),
        members_per_cell=2,
        member_batch_size=1,
        recording=Recording("0 3", float16=True),
    ),
    Sweep(Texts(choice="null", flag=True), {"noise": [(0.1, 0.2), (0.3, 1e-5)]}, range(2)),
]


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_is_read_as_it_was_written(sweep, tmp_path):
    opened = make_sweep(sweep, tmp_path / "a")
    main(["sweep", "--config", str(opened.folder.path), "--out", str(tmp_path / "b"), "--only-make"])
    for again in (opened.sweep, open_sweep(tmp_path / "b").sweep):
        assert again == sweep and list(again.axes) == list(sweep.axes)
        assert repr(again.axes) == repr(sweep.axes) and repr(again.experiment) == repr(sweep.experiment)


def test_a_config_is_read_as_people_write_it(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("experiment: swept\ngrid:\n  n-units: [3, 4]\n  rate: 1e-3\nsettings: {n-batches: 6}\n")
    assert read_config(file) == Sweep(Swept(n_batches=6), {"n_units": (3, 4), "rate": (1e-3,)}, range(5))
    file.write_text("experiment: swept\ngrid: {label: [no, 010, true]}\nseeds: 1:20\nfloat16: true\n")
    odd = Sweep(Swept(), {"label": ("no", "010", "true")}, range(1, 20), recording=Recording(float16=True))
    assert read_config(file) == odd
    words = ("vision-noise=0.002 0.02,0.004 0.04", "--plant=arm26", "hidden-noise=None,0.1")
    assert parse_axes(CenterOut, ["learning-rate=1e-3, 3e-3", *words]) == {
        "learning_rate": (1e-3, 3e-3),
        "vision_noise": ((0.002, 0.02), (0.004, 0.04)),
        "plant": ("arm26",),
        "hidden_noise": (None, 0.1),
    }


ONE_SEED = "`seeds` 10 is one network, that of seed 10: for 10 networks, say 0:10."


@pytest.mark.parametrize("seeds, said", [("10", [ONE_SEED]), ("1", []), ("10:11", [])])
def test_one_seed_that_may_be_meant_as_a_count_is_said_so(seeds, said, tmp_path):
    file, out = tmp_path / "sweep.yaml", str(tmp_path / "sw")
    file.write_text(f"experiment: swept\ngrid: {{rate: 1e-3}}\nseeds: {seeds}\n")
    for command in (["swept", "--grid", "rate=1e-3", "--seeds", seeds], ["--config", str(file)]):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            main(["sweep", *command, "--out", out, "--dry-run"])
        assert [str(each.message) for each in told] == said


HUNDRED = ", ".join(str(1 + i / 100) for i in range(100))
IN_FILES = {
    "grid: {rat: 1}": "must be of settings of texts, got 'rat'. Perhaps .* rate",
    "gird: {rate: 1}": "Perhaps you meant grid",
    "settings: {n-units: few}": "n_units.* must be a value of its type, got 'few'",
    "seeds: 2147483640:2147483650": r"must be below 2\*\*31",
    "seeds: 5:2": "must end after they begin",
    f"seeds: 0:1\nmembers_per_cell: 1\ngrid: {{rate: [{HUNDRED}], cost: [{HUNDRED}], n-units: [1, 2, 3]}}": (
        "at most 20000 cells, got 30000"
    ),
    "seeds: 1\nseeds: 2": "each key once, got 'seeds' again in line 3",
    "settings: {n-units: 3, n_units: 4}": "each setting once",
    "settings: {rate: 0.1}\ngrid: {rate: [0.2]}": "none of the settings in .grid., got 'rate' in both",
}


def refusal(arguments, capsys):
    """The one line that refuses a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    message = capsys.readouterr().err
    assert end.value.code == 2 and message.count("\n") == 1 and len(message) < 1500
    return message


@pytest.mark.parametrize("content", IN_FILES)
def test_what_is_wrong_in_a_file_is_named_with_it(content, tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(f"experiment: texts\n{content}\n")
    message = refusal(["sweep", "--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "sw")], capsys)
    assert re.search(IN_FILES[content], message) and "c.yaml" in message, message
    assert not (tmp_path / "sw").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--grid rat=1", "Perhaps you meant rate"),
        ("--grid seed=1,2", "--seeds are the seeds"),
        ("--grid rate=fast", "--rate must be a value of its type, got 'fast'"),
        ("--grid noise=1,2", "--noise must be a value of its type, got '1'"),
        ("--grid rate=0.1,,0.2", "--grid must be such as learning-rate=1e-3,3e-3"),
        ("--grid n-units=6 --n-units 4", "--n-units must be given once, got 4 and values of it"),
        ("--grid rate=1,1", "different values"),
        ("--grid rate=1 --grid rate=2", "each axis once"),
        ("--grid log-step=3 --keep 100", "must be batches from 0 to 7"),
        ("--seeds many", "--seeds must be a range such as 0:20"),
        ("--seeds 0:999999999", "at most 1000000 members"),
        ("--seeds 0:1000000 --grid n-units=5000", "of memory"),
        ("--workers 2 --scheduler here", "--workers must not be given with --scheduler"),
        ("--workers 0", "--workers must be a positive whole number"),
        ("--select-every 4", "--select-every must be given with a sweep over settings of the trainer, rate,"),
        ("--select-every 4 --grid rate=1 --seeds 0:1", "two networks or more, got 1"),
        ("--grid select-every=2,4", "the members of a population select at the same batches"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named_and_nothing_is_made(arguments, said, tmp_path, capsys):
    assert said in refusal(["sweep", "texts", *arguments.split(), "--out", str(tmp_path / "sw")], capsys)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"axes": {"mapping": [{"a": ("b",)}, {"a": ["b"]}]}}, "must have different values"),
        ({"axes": {"rate": (float("nan"),)}}, r"`axes\['rate'\]"),
        ({"axes": {"label": ({1},)}}, r"`axes\['label'\]"),
    ],
)
def test_what_is_wrong_in_python_is_named(sweep, said, tmp_path, as_users_run):
    with pytest.raises(ValueError, match=said):
        make_sweep(Sweep(Texts(), **{"axes": {}, "seeds": range(2), **sweep}), tmp_path / "sw")
    assert not (tmp_path / "sw").exists()
