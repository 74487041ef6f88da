"""`python -m leastwise` and the `leastwise` command."""

import sys

from leastwise.cli.main import main


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
