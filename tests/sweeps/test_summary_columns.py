"""What metrics are called in the table of a sweep."""

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
