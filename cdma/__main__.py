"""`python -m cdma`: the same as `cdma`."""

import sys

from cdma.cli import main

if __name__ == "__main__":
    sys.exit(main())
