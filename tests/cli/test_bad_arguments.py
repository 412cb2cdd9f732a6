"""Arguments that no command takes: one line that says so, exit code 2, and nothing is begun."""

import shlex

import pytest
from short_form import every_nth_row
from small_experiment import Sum

from popsim.cli import main
from popsim.experiments import EXPERIMENTS

COUNTS = ("members", "n-batches", "batch-size", "log-step")
COUNT, WHOLE = "must be a positive whole number", "must be a whole number"
POSITIVE, ZERO_OR_MORE = "must be finite and above zero", "must be finite and at least zero"
COMMON = {
    **{f"--{name} {value}": f"--{name} {COUNT}, got {value}"
       for name in COUNTS for value in ("0", "-1")},
    **{f"--{name} {value}": f"--{name} {WHOLE}, got '{value}'"
       for name in (*COUNTS, "seed") for value in ("1.5", "many", "nan")},
    **{f"--{name} 2147483648": f"--{name} must be below 2**31" for name in COUNTS},
    **{f"--{name}": f"--{name} must be followed by a value"
       for name in ("members", "seed", "out", "keep", "devices")},
    "--seed -1": "--seed must be from 0 to 2**32 - 1",
    "--seed 4294967296": "--seed must be from 0 to 2**32 - 1",
    "--n-members 3": "Perhaps you meant --members",
    "--n_members 3": "Perhaps you meant --members",
    "--seeed=3": "Perhaps you meant --seed",
    "--bach-size 3": "Perhaps you meant --batch-size",
    "--overwite": "Perhaps you meant --overwrite",
    "--wings 2": "Unrecognized options: --wings, 2",
    "-x": "Unrecognized options: -x",
    "stray": "Unrecognized options: stray",
    "--quiet yes": "Unrecognized options: yes",
    "--members 1 2": "Unrecognized options: 2",
    "--float61": "Perhaps you meant --float16",
    "--resume --overwrite": "--resume and --overwrite must not be given together",
    "--devices 0": f"--devices {COUNT}",
    "--devices -2": f"--devices {COUNT}",
    "--devices all": "--devices must be None or INT, got 'all'",
    "--devices 1000000": "--devices must be at most",
    "--checkpoint-seconds soon": "--checkpoint-seconds must be a number, got 'soon'",
    **{f"--checkpoint-seconds {value}": f"--checkpoint-seconds {POSITIVE}" for value in ("0", "-1", "nan")},
    **{f"--keep {value}": "--keep must be"
       for value in ("sometimes", "'every 0'", "'log'", "-3", "99999", "1.5")},
    "--out=": "--out must have a value",
    "--out /dev/null": "--out must be",
    "--out file.txt": "--out must be",
}  # fmt: skip
ROWS = {
    "": {
        "": "train, sweep, resume, info, show, compare, show-task, animate, export, init, list",
        "trian center-out": "Perhaps you meant train",
        "comparee": "Perhaps you meant compare",
        "showtask": "Perhaps you meant show-task",
        "juggle": "got 'juggle'",
        "--hlep": "Perhaps you meant --help",
        "--verson": "Perhaps you meant --version",
        "-v": "got '-v'",
        "TRAIN center-out": "got 'TRAIN'",
    },
    "train": {
        "": "EXPERIMENT must be given",
        "centre-out": "Perhaps you meant center-out",
        "cognitve": "Perhaps you meant cognitive",
        "juggling": "EXPERIMENT must be known, got 'juggling': popsim --import MODULE",
        "--members 3": "EXPERIMENT must be",
    },
    "train sum": COMMON | {
        "--noise 1": "--noise must be followed by 2 values",
        "--noise 1 loud": "--noise must be numbers, got '1', 'loud'",
        "--noise 1 2 3": "Unrecognized options: 3",
    },
    "train center-out": {
        "--plant pointmass": "--plant must be one of arm26, ",
        "--plant octopus": "got 'octopus'",
        "--plant": "--plant must be followed by a value",
        "--n-units 0": f"--n-units {COUNT}",
        "--n-units few": f"--n-units {WHOLE}",
        **{f"--{name} {value}": f"--{name} {POSITIVE}" for name in ("learning-rate", "dt", "duration")
           for value in ("0", "-1", "nan", "inf")},
        **{f"--{name} fast": f"--{name} must be a number" for name in ("learning-rate", "dt", "duration")},
        "--duration 0.015": "--duration must be a multiple of the time step",
        **{f"--{name} {value}": f"--{name} {ZERO_OR_MORE}"
           for name in ("vision-delay", "proprioception-delay") for value in ("-1", "nan")},
        "--vision-delay 2": "--vision-delay must be shorter than a trial",
        "--proprioception-delay 1": "--proprioception-delay must be shorter than a trial",
        "--vision-noise 1": "--vision-noise must be followed by 2 values",
        "--vision-noise -1 1": f"--vision-noise {ZERO_OR_MORE}",
        "--vision-noise 1 nan": f"--vision-noise {ZERO_OR_MORE}",
        "--motor-noise 1": "--motor-noise must be None or FLOAT FLOAT, got '1'",
        "--motor-noise -1 0": f"--motor-noise {ZERO_OR_MORE}",
        "--proprioception-noise a b": "--proprioception-noise must be None or FLOAT FLOAT, got 'a' 'b'",
        "--hidden-noise loud": "--hidden-noise must be None or FLOAT, got 'loud'",
        "--hidden-noise -1": f"--hidden-noise {ZERO_OR_MORE}",
        "--proprioceptive-noise 1 2": "Perhaps you meant --proprioception-noise",
        "--learning-rat 1": "Perhaps you meant --learning-rate",
        "--members 2000000000": "--members must be at most 1000000",
    },
    "train cognitive": {
        "--task flipflop": "Perhaps you meant flip-flop",
        "--task reaching": "--task must be one of",
        "--network transformer": "--network must be one of gru, tanh, lstm, vanilla, ",
        "--network tahn": "Perhaps you meant tanh",
        "--network LSTM": "Perhaps you meant lstm",
        "--tau 0": f"--tau {POSITIVE}",
        "--tau slow": "--tau must be None or FLOAT, got 'slow'",
        "--network gru --tau 0.1": "--tau must be given with a network that has a time constant, such as",
        "--hidden-noise nan": f"--hidden-noise {ZERO_OR_MORE}",
        "--n-units -3": f"--n-units {COUNT}",
        "--learning-rate 0": f"--learning-rate {POSITIVE}",
        "--plant arm26": "Unrecognized options: --plant, arm26. cognitive has no body: popsim list marks",
    },
    "train delayed-reaches": {"--delay 300": "--delay must fit the task: "},
    **{command: {
        "": "RUN must be given",
        "nowhere": "RUN must be the folder of a popsim run",
        "file.txt": "RUN must be the folder of a popsim run",
        "/dev/null": "RUN must be the folder of a popsim run",
        ".": "RUN must be the folder of a popsim run",
        "--verfy": "RUN must be given",
        "a b": "Unrecognized options: b",
    } for command in ("resume", "info", "show")},
    "resume .": {
        "--devices 0": f"--devices {COUNT}",
        "--devices x": "--devices must be None or INT, got 'x'",
        "--quite": "Perhaps you meant --quiet",
        "--members 2": "Unrecognized options: --members, 2",
    },
    "info .": {"--verfy": "Perhaps you meant --verify", "--verify yes": "Unrecognized options: yes"},
    "show .": {"--out": "--out must be followed by a value", "--outt x": "Perhaps you meant --out"},
    "compare": {
        "": "RUN must be 2 to 8 folders of runs, got 0",
        ".": "RUN must be 2 to 8 folders of runs, got 1",
        ". nowhere": "RUN must be",
        "a b c d e f g h i": "RUN must be 2 to 8 folders of runs, got 9",
        "a b --names x": "--names must be 2 different names",
        "a b --name x": "Perhaps you meant --names",
        "a b --out": "--out must be followed by a value",
    },
    "show-task": {
        "": "TASK must be given",
        "centre-out": "Perhaps you meant center-out",
        "flipflop": "Perhaps you meant flip-flop",
        "juggling": "TASK must be known, got 'juggling': popsim --import MODULE",
        "flip-flop --trials 0": f"--trials {COUNT}",
        "flip-flop --trials 13": "--trials must be at most 12",
        "flip-flop --trials x": f"--trials {WHOLE}",
        "flip-flop --trials x --batch y": f"--trials {WHOLE}",
        "flip-flop --seed -1": "--seed must be from 0 to",
        "flip-flop --seed 1e3": f"--seed {WHOLE}",
        "flip-flop --batch -1": "--batch must be from 0 to",
        "flip-flop --batch 2147483648": "--batch must be from 0 to",
        "flip-flop --out figure.gif": "--out must end in one of .png, .pdf, .svg",
        "flip-flop --out figure": "--out must end in one of .png, .pdf, .svg",
        "flip-flop --out there.png": "--out must not exist",
        "flip-flop --trails 2": "Perhaps you meant --trials",
    },
    "animate": {
        "": "RUN must be given",
        "nowhere": "RUN must be the folder of a popsim run",
        ". --out movie.avi": "--out must end with .gif, .mp4 or .html",
        ". --out there.png": "--out must end with .gif, .mp4 or .html",
        ". --speed 0": f"--speed {POSITIVE}",
        ". --frames-per-second 60": "--frames-per-second must be at most 50 in a GIF",
        ". --trail -1": f"--trail {POSITIVE}",
        ". --members first": "--members must be as help shows it, got 'first'",
        ". --member 0": "Perhaps you meant --members",
    },
    "export": {
        "": "RUN must be given",
        ".": "--model, --history, --figures or --states",
        ". --states x.csv": "--states must end in .nc or .mat",
        ". --model": "--model must be followed by a value",
        ". --model there.png": "--model must not exist",
        ". --model there.png --overwrite": "--model must not hold",
        ". --history there.png": "--history must not exist",
        ". --history there.png --overwrite": "--history must not hold",
        ". --figures x": "RUN must be the folder of a popsim run",
        "nowhere --model x.safetensors": "RUN must be the folder of a popsim run",
        ". --modl x": "Perhaps you meant --model",
        ". --figure x": "Perhaps you meant --figures",
    },
    "list": {
        "tasks": "Unrecognized options: tasks",
        "--all": "Unrecognized options: --all",
        "--like neurogymnasium": "--like must be one of neurogym, psychrnn, braintools, neuralrnn, got",
        "--tyro-write-completion bash file.txt": "Unrecognized options: --tyro-write-completion",
        "--tyro_print_completion bash": "Unrecognized options: --tyro_print_completion",
    },
}  # fmt: skip
TABLE = [(f"{command} {rest}", named) for command, rows in ROWS.items() for rest, named in rows.items()]


@pytest.mark.parametrize(("arguments", "named"), every_nth_row(TABLE, 3), ids=[row[0] for row in TABLE])
def test_bad_arguments_are_refused_in_one_line(arguments, named, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "sum", Sum)
    monkeypatch.setattr("sys.argv", ["popsim", *shlex.split(arguments)])
    monkeypatch.chdir(tmp_path)
    for name in ("file.txt", "there.png"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == ""
    assert said.err.count("\n") == 1 and said.err.startswith("popsim: error: ") and named in said.err
    assert "`" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.txt", "there.png"]
