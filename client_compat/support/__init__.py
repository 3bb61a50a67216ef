"""What the programs here share: brokers and clients as processes, loads and readers, verdicts, and how a command runs, tells and ends."""
