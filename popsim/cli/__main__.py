"""`python -m popsim.cli`, for processes that start others."""

from popsim.cli import main

if __name__ == "__main__":
    main()
