"""Runs on disk: PyTrees, arrays and JSON. Knows nothing of training or tasks."""

from popsim.store.arrays import open_arrays as open_arrays
from popsim.store.arrays import write_arrays as write_arrays
from popsim.store.json_files import append_json_line as append_json_line
from popsim.store.json_files import as_json_numbers as as_json_numbers
from popsim.store.json_files import read_json as read_json
from popsim.store.json_files import read_json_lines as read_json_lines
from popsim.store.json_files import write_json as write_json
from popsim.store.run_folder import RunFolder as RunFolder
from popsim.store.trees import leaf_names as leaf_names
from popsim.store.trees import read_tree as read_tree
from popsim.store.trees import write_tree as write_tree
