"""`python -m broker …` is `ottla …`."""

from broker.cli import main

main()
