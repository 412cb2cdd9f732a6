"""JSON files with a seal, and logs of JSON lines."""

import jax.numpy as jnp
import pytest

from popsim.store import (
    CorruptDataError,
    SaveError,
    append_json_line,
    as_json_numbers,
    keep_json_lines,
    read_json,
    read_json_lines,
    read_sealed_json,
    write_json,
    write_sealed_json,
)


def test_round_trip_and_replacement(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    write_json(path, {"x": [2.5, None]})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path) == {"x": [2.5, None]}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_missing_or_damaged_file_is_named(tmp_path):
    with pytest.raises(CorruptDataError, match=r"b\.json"):
        read_json(tmp_path / "b.json")
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(CorruptDataError, match=r"c\.json"):
        read_json(tmp_path / "c.json")
    for write in (write_json, append_json_line):
        with pytest.raises(SaveError, match=r"gone/a\.json"):
            write(tmp_path / "gone" / "a.json", {})


def test_a_log_is_read_up_to_a_torn_last_line(tmp_path):
    path = tmp_path / "log.jsonl"
    for value in ({"batch": 0}, {"batch": 1}):
        append_json_line(path, value)
    whole = path.read_text()
    path.write_text(whole[:-5])
    assert read_json_lines(path) == [{"batch": 0}]
    path.write_text("{\n" + whole)
    with pytest.raises(ValueError, match="line 1"):
        read_json_lines(path)


def test_a_log_that_is_damaged_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    with pytest.raises(CorruptDataError, match=r"log\.jsonl; it is missing"):
        read_json_lines(path)
    keep_json_lines(path, lambda line: True)
    for damaged in ('{"bauch": 0}\n', "[]\n", '{"batch": "0"}\n'):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError, match=r"log\.jsonl"):
            keep_json_lines(path, lambda line: line["batch"] < 3)
    path.write_bytes(b'{"batch": 0, "\xff": 1}\n{"batch": 1}\n')
    with pytest.raises(CorruptDataError, match="line 1"):
        read_json_lines(path)


def test_a_seal_breaks_when_anything_changes(tmp_path):
    path = tmp_path / "a.json"
    value = {"format": 1, "settings": {"noise": (0.1, 2.0), "seed": 3}, "none": None}
    write_sealed_json(path, value)
    assert read_sealed_json(path) == value | {"settings": {"noise": [0.1, 2.0], "seed": 3}}
    good = path.read_text()
    for damaged in (
        good.replace("3", "2"),
        good.replace("0.1", "0.3"),
        good.replace("seed", "sead"),
        "[]",
        "{}",
    ):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError, match=r"a\.json"):
            read_sealed_json(path)
    path.write_text(good.replace("  ", " "))
    assert read_sealed_json(path)["format"] == 1


def test_numbers_that_are_not_finite_become_null(tmp_path):
    values = [[1.5, float("nan")], [float("-inf"), 2.0]]
    assert as_json_numbers(values) == [[1.5, None], [None, 2.0]]
    assert as_json_numbers(jnp.asarray(0.5)) == 0.5 and as_json_numbers(jnp.inf) is None
    write_json(tmp_path / "a.json", as_json_numbers(jnp.asarray(values)))
