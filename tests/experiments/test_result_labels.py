"""Tables whose members have labels."""

from popsim.experiments import Column, ResultTable, Row


def test_labels_are_of_members_only():
    rows = [Row("trained", [1.0], 1), Row("limits", [2.0])]
    table = ResultTable([Column("error", "mm")], rows).with_labels({"rate": ["low", "high"]})
    assert [list(row.values) for row in table.rows] == [["high", 1.0], ["", 2.0]]
