"""The main job, at full size."""

import json

import pytest

from popsim.experiments import CenterOut, run_experiment


@pytest.mark.slow
@pytest.mark.full  # in short: test_motor_tasks_train learns to reach, test_experiments has the summary
def test_the_main_job_reaches_and_its_controls_do_not(tmp_path):
    """Noise off: under 2 mm and 1 cm/s at every target; noise on: under 5 mm and 2 cm/s on average."""
    run = run_experiment(CenterOut(n_members=2), tmp_path / "run", quiet=True)
    ensembles = json.loads(run.folder.summary.read_text())["ensembles"]
    for name, rows in ensembles.items():
        assert len(rows) == 2
        for row in rows:
            off, on = row["noise_off_worst_target"], row["noise_on_mean"]
            reaches = (
                off["end_point_error_m"] < 0.002
                and off["final_speed_m_per_s"] < 0.01
                and on["end_point_error_m"] < 0.005
                and on["final_speed_m_per_s"] < 0.02
            )
            assert reaches == row["within_limits"] == (name == "trained"), (name, row)
