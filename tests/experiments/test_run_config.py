"""The settings of a run from a YAML file, or from another run."""

import dataclasses

import pytest
from kept_runs import EVERY_2, SMALL, finished_run

from popsim.cli import main
from popsim.experiments import CenterOut, Recording, open_run
from popsim.experiments.run_config import read_run_config

FILE = """
experiment: center-out
settings: {plant: arm26, vision-noise: [0, 0.1], motor_noise: null, n_members: 4,
           grid: {learning-rate: [1e-3, 1e-2]}}
keep: every 10
float16: true
checkpoint_seconds: 12.5
"""


def test_a_file_has_settings_grids_and_what_is_recorded(tmp_path):
    (tmp_path / "mine.yaml").write_text(FILE)
    experiment, options = read_run_config(tmp_path / "mine.yaml")
    grid = (("learning_rate", (1e-3, 1e-2)),)
    assert experiment == CenterOut(plant="arm26", vision_noise=(0.0, 0.1), n_members=4, grid=grid)
    assert options.recording == Recording("every 10", True) and options.checkpoint_seconds == 12.5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("settings: {}", "entry `experiment`"),
        ("experiment: sum\nsetings: {}", "Perhaps you meant settings"),
        ("experiment: summ", "Perhaps you meant sum"),
        ("experiment: sum\nsettings: {n_batchs: 3}", "Perhaps you meant n-batches"),
        (
            "experiment: sum\nsettings: {n_batches: many}",
            "`n_batches` must be a value of its type, got 'many': Expected `int`",
        ),
        ("experiment: sum\nsettings: {n_batches: 2, n-batches: 3}", "each setting once"),
        ("experiment: sum\nsettings: [1]", "values by name"),
        ("experiment: sum\nsettings: {seed: 1}\nsettings: {seed: 2}", "each key once, got 'settings' again"),
        ("experiment: sum\nkeep: sometimes", "`keep` must be"),
        ("experiment: !!python/object/apply:os.system [ls]", "got ['ls']"),
        ("experiment: " + "[" * 10**5, "YAML file"),
        ("experiment: sum\n" + "#" * 2**17, "at most"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text, named, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_run_config(path)
    assert named in str(error.value) and "mine.yaml" in str(error.value)


@pytest.mark.slow
def test_a_run_trains_with_the_settings_of_another(tmp_path, capsys, tmp_path_factory):
    out, config = tmp_path / "other", str(finished_run(tmp_path_factory))
    main(["train", "--config", config, "--seed", "1", "--out", str(out), "--quiet", "--devices", "1"])
    run = open_run(out)
    assert run.experiment == dataclasses.replace(SMALL, seed=1)
    assert run.described.content["recording"] == dataclasses.asdict(EVERY_2)
    for words in (["center-out", f"--config={config}"], ["--config"], ["--config", config, "--wings", "2"]):
        with pytest.raises(SystemExit) as end:
            main(["train", *words])
        assert end.value.code == 2
    assert "'center-out'" in capsys.readouterr().err
