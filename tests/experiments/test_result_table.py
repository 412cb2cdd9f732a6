"""A table of results as text, and its numbers."""

import numpy as np

from popsim.experiments import Column, ResultTable, Row

ERROR, GOOD = Column("error", "mm", "noise off"), Column("good")
ROWS = [
    Row("trained", [1.234, True], 0),
    Row("trained", [None, False], 1),
    Row("control", [9.0, False], 0),
    Row("limits", [2.0, ""]),
]
TEXT = """what it is
                             noise off
                    member  error (mm)  good
trained                  0        1.23  yes
trained                  1           -  no
control                  0        9.00  no
limits                            2.00"""


def test_as_text():
    assert str(ResultTable([ERROR, GOOD], ROWS, "what it is")) == TEXT


def test_long_words_make_columns_wider_and_without_members_there_is_no_column_of_them():
    text = str(ResultTable([Column("a"), Column("b")], [Row("n" * 30, ["word", 1.0]), Row("m", ["w", 2.0])]))
    assert text.splitlines() == [
        " " * 30 + "  a" + " " * 3 + " " * 11 + "b",
        "n" * 30 + "  word" + " " * 8 + "1.00",
        "m" + " " * 29 + "  w" + " " * 3 + " " * 8 + "2.00",
    ]


def test_the_numbers_of_the_first_ensemble():
    table = ResultTable([ERROR, GOOD], ROWS)
    np.testing.assert_array_equal(table.of_members(ERROR), [1.234, np.nan])
    np.testing.assert_array_equal(table.of_members(GOOD), [1, 0])
    assert ResultTable([ERROR], [Row("all", [1.0])]).of_members(ERROR).size == 0


def test_labels_are_of_members_only():
    rows = [Row("trained", [1.0], 1), Row("limits", [2.0])]
    table = ResultTable([Column("error", "mm")], rows).with_labels({"rate": ["low", "high"]})
    assert [list(row.values) for row in table.rows] == [["high", 1.0], ["", 2.0]]
