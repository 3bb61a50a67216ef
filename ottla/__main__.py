"""Makes `python -m ottla …` equivalent to `ottla …`."""

import sys

from ottla.broker.cli import main
from ottla.broker.cli.basics import EXIT_NO_RESULT

try:
    main()
except ModuleNotFoundError as missing:  # a checkout whose dependencies are not installed
    if missing.name is None or missing.name.partition(".")[0] == "ottla":
        raise
    print(
        f"ottla: {sys.executable} has no {missing.name}: install it with 'pip install .' in the checkout or 'make setup'", file=sys.stderr
    )
    raise SystemExit(EXIT_NO_RESULT) from None
