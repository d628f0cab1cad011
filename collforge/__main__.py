"""`python -m collforge` is the command `collforge`."""

import sys

from collforge.tuner.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
