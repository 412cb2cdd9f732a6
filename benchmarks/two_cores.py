"""How much faster two cores train an ensemble than one: the main job with 16 networks.

On one core; on two cores as one device, as JAX uses them by itself; and with the members divided over two
virtual devices, as the command line does. Taken in turn; medians over rounds.
"""

import argparse
import statistics

from worker import train

WAYS = {
    "one core": ("--cores", "1", "--devices", "1"),
    "two cores, one device": ("--cores", "2", "--devices", "1"),
    "two cores, two devices": ("--cores", "2", "--devices", "2"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", default="16")
    arguments = parser.parse_args()
    costs = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way, options in WAYS.items():
            costs[way].append(train("--members", arguments.members, "--batches", "40", *options))
    first = {way: statistics.median(cost.first for cost in own) for way, own in costs.items()}
    batch = {way: statistics.median(cost.batch for cost in own) for way, own in costs.items()}
    print(f"{'':24} first batch  a batch  faster than one core")
    for way in WAYS:
        ratio = batch["one core"] / batch[way]
        print(f"{way:24} {first[way]:9.1f} s {1e3 * batch[way]:5.0f} ms {ratio:6.2f}")


if __name__ == "__main__":
    main()
