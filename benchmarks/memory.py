"""Memory and time of a large ensemble: 64 networks, batches of 250 trials of 100 steps, the two-link arm.

As it is; with the time steps recomputed in the backward pass (`remat`); with blocks of members
(`member_batch_size`); with parts of a batch (`n_minibatches`). Each in a process of its own on two cores.
"""

from worker import train

SIZE = ("--members", "64", "--batch-size", "250", "--batches", "1", "--cores", "2")
WAYS = {
    "as it is": (),
    "remat": ("--remat",),
    "member_batch_size=8": ("--member-batch-size", "8"),
    "member_batch_size=8, remat": ("--member-batch-size", "8", "--remat"),
    "n_minibatches=10": ("--minibatches", "10"),
}


def main() -> None:
    """Measure and print."""
    print(f"{'':28} peak memory  first batch  a batch")
    for way, options in WAYS.items():
        cost = train(*SIZE, *options)
        print(f"{way:28} {cost.peak:8.2f} GB {cost.first:10.1f} s {cost.batch:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
