"""The release files: the sdist and a wheel for each Python, each installed and tested (`make dist`), and the tests on each Python."""
