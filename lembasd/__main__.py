"""`python -m lembasd` is the command `lembasd`."""

import sys

from lembasd.cli.service import main

if __name__ == "__main__":
    sys.exit(main())
