"""`python -m ottla …` is `ottla …`."""

from ottla.broker.cli import main

main()
