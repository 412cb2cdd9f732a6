"""The table of a sweep: what metrics are called, and its cells as CSV."""

import csv

from swept_runs import Swept

from popsim.cli import main
from popsim.sweeps import Sweep, make_sweep, open_sweep
from popsim.sweeps._summary_columns import metric_columns


def test_metrics_are_identifiers_and_none_is_lost():
    stored = [
        "result.error (mm), noise on, mean",
        "result.speed (cm/s)",
        "result.a²",
        "result.a³",
        "result.50 %",
    ]
    columns = metric_columns(stored)
    assert list(columns) == [
        "result_error_mm_noise_on_mean",
        "result_speed_cm_per_s",
        "result_a",
        "result_a_2",
        "result_50_percent",
    ]
    assert list(columns.values()) == stored and all(name.isidentifier() for name in columns)


def test_no_text_of_a_setting_is_a_formula_for_a_spreadsheet(tmp_path):
    axes = {"label": ("=1+1", "-3.2", "any"), "cost": (-0.1,)}
    make_sweep(Sweep(Swept(), axes, range(1)), tmp_path / "sweep")
    shown = repr(open_sweep(tmp_path / "sweep"))
    assert shown == f"OpenedSweep({str(tmp_path / 'sweep')!r}: swept, 3 members of 3 cells, 3 not started)"
    main(["export", str(tmp_path / "sweep"), "--summary", str(tmp_path / "s.csv")])
    _, *rows = csv.reader((tmp_path / "s.csv").read_text().splitlines())
    assert [row[1:3] for row in rows] == [["'=1+1", "-0.1"], ["-3.2", "-0.1"], ["any", "-0.1"]]
