"""What is handed to users: the sdist and a wheel for each Python, each installed and tried (`make dist`), and the tests on each Python."""
