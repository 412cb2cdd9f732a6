"""Runs on disk: checkpoints, histories, models and JSON. Knows nothing of training or tasks."""

from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import ListedArray, list_arrays, open_arrays
from popsim.store.checkpoints import Checkpoint, Checkpoints
from popsim.store.files import CorruptDataError, MismatchError, SaveError
from popsim.store.identity import lock_folder
from popsim.store.json_files import (
    append_json_line,
    as_json_numbers,
    keep_json_lines,
    read_json,
    read_json_lines,
    read_sealed_json,
    write_json,
    write_sealed_json,
)
from popsim.store.mat_file import check_mat_path, write_mat
from popsim.store.model_file import check_model_path, leaf_names, load_model, read_model_details, save_model
from popsim.store.netcdf import check_netcdf_path, write_netcdf
from popsim.store.run_folder import RunFolder

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "CorruptDataError",
    "GrowingArrays",
    "ListedArray",
    "MismatchError",
    "RunFolder",
    "SaveError",
    "append_json_line",
    "as_json_numbers",
    "check_mat_path",
    "check_model_path",
    "check_netcdf_path",
    "keep_json_lines",
    "leaf_names",
    "list_arrays",
    "load_model",
    "lock_folder",
    "open_arrays",
    "read_json",
    "read_json_lines",
    "read_model_details",
    "read_sealed_json",
    "save_model",
    "write_json",
    "write_mat",
    "write_netcdf",
    "write_sealed_json",
]
