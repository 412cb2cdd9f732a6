import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from command_ends import complaint
from kept_runs import SIZES
from reported_runs import Reported
from small_experiment import Sum

import popsim
from popsim.cli import main
from popsim.cli._main import COMMANDS
from popsim.experiments import open_run
from popsim.report import SECTIONS


@pytest.mark.slow
def test_train_then_show_then_refuse_then_overwrite(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", SECTIONS[:1])
    train = ["train", Reported.name, *SIZES, "--quiet"]
    main(train)
    trained = capsys.readouterr()
    assert trained.err == ""
    run = tmp_path / "runs" / "reported-0"
    figure = run / "figures" / "few.png"
    assert "limits" in trained.out and str(figure.relative_to(tmp_path)) in trained.out
    figure.unlink()

    main(["show", str(run)])
    assert figure.exists() and "limits" in capsys.readouterr().out

    assert "--overwrite" in complaint(train, capsys)
    other = ["train", "sum", *SIZES, "--quiet", "--out", str(run)]
    assert "--overwrite" in complaint(other, capsys) and figure.exists()
    main([*other, "--overwrite"])
    assert isinstance(open_run(run).experiment, Sum)


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    for how in ([], ["--overwrite"], ["--resume"]):
        assert "thesis.tex" in complaint(["train", "sum", *SIZES, "--out", tmp_path, *how], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_list_names_experiments_tasks_and_plants(capsys):
    main(["list"])
    out = capsys.readouterr().out
    names = ("center-out", "RandomReaches", "CenterOutReaches", "two-link-arm", "point-mass")
    assert all(name in out for name in names)
    tasks = out.partition("tasks (popsim train, popsim show-task)")[2].partition("further tasks")[0]
    assert "[body]" not in tasks.partition("flip-flop")[2]
    said = [line.partition("  ")[2] for line in tasks.splitlines() if line.startswith("  ")]
    assert len(said) == len(set(said)) > 20
    assert re.search(r"visuomotor-rotation +\[body\] Baseline, rotation, washout", tasks)
    assert re.search(r"delayed-reaches +\[body\] DelayedReaches: ", tasks)
    assert "  arm26-relu                   arm26 with ReluMuscle\n" in out
    assert all(line.split(maxsplit=1)[1:] for line in out.splitlines() if line.startswith("  "))
    assert "  WithInterventions " in out.partition("further tasks")[2]


def test_a_reader_that_leaves_ends_the_command_silently(capsys, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        with pytest.raises(SystemExit) as end:
            main(["list"])
    assert end.value.code == 128 + signal.SIGPIPE and capsys.readouterr().err == ""


def test_help_lists_the_settings_of_an_experiment(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "center-out", "--help"])
    assert not end.value.code
    out = capsys.readouterr().out
    flags = ("out", "members", "n-batches", "batch-size", "seed", "plant", "overwrite", "quiet")
    assert all(f"--{flag}" in out for flag in flags)
    assert "delay of vision, s" in out and "delay of proprioception, s" in out
    assert "by default all, or as many as before for what has begun" in " ".join(out.split())


WITHOUT_JAX = """
import sys
sys.modules["jax"] = sys.modules["numpy"] = None  # their import fails
from popsim.cli import main
for arguments in ("--help", "--version", "show --help", "juggle", "show ", "show x --bogus"):
    try:
        main(arguments.split(" "))
    except SystemExit as end:
        print("ended", end.code)
"""


def test_help_and_refusals_need_no_jax():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True, check=True)
    codes = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("ended")]
    assert f"popsim {popsim.__version__}\n" in ran.stdout
    assert codes == ["0", "None", "0", "2", "2", "2"]
    assert "must be one of train," in ran.stderr and "--bogus" in ran.stderr
    assert ran.stdout.count(" • ") == len(COMMANDS)


ON_ALL_CORES = """
import os
os.sched_getaffinity = lambda _: {0, 1, 2}
from popsim.cli._main import _command
_command(["train", "perceptual-decision"])
from popsim.cli._devices import training_devices
print(len(training_devices(None)))
"""


def test_a_task_that_makes_arrays_is_trained_on_all_cores():
    ran = subprocess.run([sys.executable, "-c", ON_ALL_CORES], capture_output=True, text=True, check=True)
    assert ran.stdout == "3\n"


def test_a_fault_is_not_taken_for_a_bad_value(tmp_path, monkeypatch):
    def fail(*_, **__):
        np.zeros(2).reshape(3)

    monkeypatch.setattr("popsim.cli._train.run_experiment", fail)
    with pytest.raises(ValueError, match="reshape"):
        main(["train", "sum", *SIZES, "--quiet", "--out", str(tmp_path)])
