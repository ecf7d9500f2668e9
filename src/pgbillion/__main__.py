"""Run the command line as ``python -m pgbillion``."""

import sys

from pgbillion.cli import main

if __name__ == "__main__":
    sys.exit(main())
