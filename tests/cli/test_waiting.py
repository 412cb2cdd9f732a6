"""What a user sees while waiting, what leaves the command line, and what is next."""

import io
import json
import os
import subprocess

import matplotlib.pyplot as plt
import pytest
import small_experiment  # noqa: F401, which registers it
from tensorboard_events import read_events

from popsim.cli import main
from popsim.cli._main import COMMANDS, SHELLS, completion_script
from popsim.experiments import open_run

pytestmark = pytest.mark.slow
# No other test has batches of this size, so that the loop is compiled here.
SETTINGS = ["--members", "2", "--n-batches", "4", "--batch-size", "7", "--log-step", "2"]


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, and what its training said in a terminal and on standard output."""
    folder = tmp_path_factory.mktemp("waiting") / "run"
    error, output = Terminal(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", error)
        patch.setattr("sys.stdout", output)
        main(["train", "sum", *SETTINGS, "--tensorboard", "--out", str(folder)])
    return folder, error.getvalue(), output.getvalue()


def test_a_terminal_shows_each_thing_that_is_waited_for_and_what_is_next(trained):
    folder, said, printed = trained
    shown = ("building 2 networks … 0 s", "training 41 numbers in each of 2 members", "compiling … 0 s")
    shown += ("training: ", "4/4", "measuring the trained networks … 0 s", "drawing the figures … 0 s")
    places = [said.index(text) for text in shown]
    assert places == sorted(places) and "compiling: " not in said
    assert printed.splitlines()[-1] == f"Next: popsim --import small_experiment show {folder}"


def test_tensorboard_gets_the_losses(trained):
    folder, _, _ = trained
    total = read_events(folder / "tensorboard")["validation/total"]
    history = open_run(folder).history
    assert [step for step, _ in total] == history.validation_batch.values.tolist()
    means = history.total_validation_loss.mean("member").values.tolist()
    assert [value for _, value in total] == pytest.approx(means, rel=1e-5)


def test_info_and_show_print_one_json_value(trained, capsys, monkeypatch):
    folder, _, _ = trained
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", ())
    main(["info", str(folder), "--json", "--verify"])
    info = json.loads(capsys.readouterr().out)
    assert (info["kind"], info["state"], info["n_batches_saved"]) == ("run", "finished", 4)
    assert info["settings"]["n_members"] == 2 and info["damage"] == {} and info["resume_command"] is None
    assert len(info["losses"]["validation"]) == 2 and info["checkpoints"][-1]["n_batches"] == 4
    main(["show", str(folder), "--json"])
    shown = json.loads(capsys.readouterr().out)
    plt.close("all")
    assert shown["report"] == str(folder / "report.html") and shown["is_finished"]
    assert shown["results"]["rows"] == [{"label": "all", "values": [2], "member": None}]
    assert all(os.path.exists(path) for path in shown["figures"])


def test_a_number_that_is_not_finite_is_null(capsys):
    from popsim.cli._commands import print_json

    print_json({"losses": [float("nan"), 1.5], "axes": ("member",)})
    assert json.loads(capsys.readouterr().out) == {"losses": [None, 1.5], "axes": ["member"]}


@pytest.mark.full
def test_a_shell_can_read_the_script_that_completes_commands():
    script, _ = (completion_script(shell) for shell in SHELLS)
    for word in (*COMMANDS, "center-out", "--n-batches", "--grid"):
        assert word in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    complete = 'COMP_WORDS=(popsim tr); COMP_CWORD=1; _tyro_popsim; echo "${COMPREPLY[@]}"'
    words = f"{script}\n{complete}"
    ran = subprocess.run(["bash", "-s"], input=words, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["train"]
