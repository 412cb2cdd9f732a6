"""Arguments that no command takes: one line that says so, exit code 2, and nothing is begun."""

import shlex

import pytest
import small_experiment  # noqa: F401, which registers it
from short_form import every_nth_row

from popsim.cli import main

COUNT, POSITIVE = "must be a positive whole number", "must be finite and above zero"
ROWS = {
    "": {
        "": "train, sweep, resume, info, show, compare, show-task, animate, export, init, list",
        "trian center-out": "Perhaps you meant train",
        "--hlep": "Perhaps you meant --help",
        "--import no_such_module.of_mine list": "--import must name",
        "--import ../mine list": "'../mine'",
        "--completion fish": "bash, zsh, got 'fish'",
    },
    "train": {
        "": "Missing from popsim train: EXPERIMENT",
        "centre-out": "Perhaps you meant center-out",
        "juggling": "EXPERIMENT must be known, got 'juggling': popsim --import MODULE",
    },
    "train sum": {
        "--members 0": f"--members {COUNT}, got 0",
        "--batch-size 1.5": "Error parsing --batch-size: invalid literal for int() with base 10: '1.5'.",
        "--n-batches 2147483648": "--n-batches must be below 2**31",
        "--members": "Missing value for argument '--members'",
        "--n-members 3": "Perhaps you meant --members",
        "--wings 2": "Unrecognized options: --wings, 2",
        "--resume --overwrite": "--resume and --overwrite must not be given together",
        "--devices 0": f"--devices {COUNT}",
        "--devices 1000000": "--devices must be at most",
        "--resume --checkpoint-seconds 0": f"--checkpoint-seconds {POSITIVE}",
        "--keep sometimes": "--keep must be",
        "--keep 99999": "--keep must be",
        "--out=a= --members": "Missing value for argument '--members'",
        "--out ''": "there must be a value after `popsim train sum --out`, got an empty one",
        "--out caf\udce9": "what follows `popsim train sum --out` must be in UTF-8",
        "--out file.txt": "--out must be",
        "--noise 1": "Missing value for argument '--noise'. Expected 2 values",
        "--noise 1 loud": "Could not parse arguments ['1', 'loud']",
    },
    "train center-out": {
        "--plant octopus": "invalid choice 'octopus' for argument '--plant'. Expected one of ('two-link-arm'",
        "--learning-rate 0": f"--learning-rate {POSITIVE}",
        "--duration 0.015": "--duration must be a multiple of the time step",
        "--vision-delay 2": "--vision-delay must be shorter than a trial",
        "--vision-noise 1 nan": "--vision-noise must be finite, got nan",
        "--members 2000000000": "--members must be at most 1000000",
    },
    "train cognitive": {
        "--task flipflop": "Expected one of ('flip-flop', ",
        "--network gru --tau 0.1": "--tau must be given with a network that has a time constant, such as",
    },
    "train delayed-reaches": {
        "--delay 300": "must not last longer than the trial, 1.5 s, got up to 300.1 s",
        "--delay 0.6 0.2": "--delay: `high` must be at least `low`, 0.6, got 0.2",
    },
    **{command: {
        "": f"Missing from popsim {command}: RUN",
        **dict.fromkeys(("nowhere", "."), "RUN must be the folder of a popsim run"),
    } for command in ("resume", "info", "show")},
    "resume .": {
        "--quite": "Perhaps you meant --quiet",
        "--workers 2 --scheduler x": "--workers must not be given with --scheduler",
    },
    "compare": {
        ".": "RUN must be 2 to 8 different folders of runs, got ",
        "a b --names x": "--names must be 2 different names",
    },
    "show-task": {
        "flipflop": "Perhaps you meant flip-flop",
        "flip-flop --trials 13": "--trials must be from 1 to 12, got 13",
        "flip-flop --batch -1": "--batch must be from 0 to",
        "flip-flop --out figure.gif": "--out must end in one of .png, .pdf, .svg",
        "flip-flop --out there.png": "--out must not exist",
    },
    "animate": {
        ". --out movie.avi": "--out must end with .gif, .mp4 or .html",
        ". --frames-per-second 60": "--frames-per-second must be at most 50 in a GIF",
    },
    "export": {
        ".": "--model, --history, --figures, --states, got none",
        ". --states x.csv": "--states must end in .nc or .mat",
        ". --history x.csv": "--history must end in .nc or .mat",
        ". --model there.png": "--model must not exist",
        ". --history there.nc --overwrite": "--history must not hold",
        "nowhere --model x.safetensors": "RUN must be the folder of a popsim run",
    },
    "list": {"tasks": "Unrecognized options: tasks"},
}  # fmt: skip
TABLE = [(f"{command} {rest}", named) for command, rows in ROWS.items() for rest, named in rows.items()]


@pytest.mark.parametrize(("arguments", "named"), every_nth_row(TABLE, 3), ids=[row[0] for row in TABLE])
def test_bad_arguments_are_refused_in_one_line(arguments, named, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["popsim", *shlex.split(arguments)])
    monkeypatch.chdir(tmp_path)
    for name in ("file.txt", "there.png", "there.nc"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == ""
    assert said.err.count("\n") == 1 and said.err.startswith("popsim: error: ") and named in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.txt", "there.nc", "there.png"]
