"""`make bench-audit`: how fast the audit reads and judges logs, beside `kafka-dump-log` on the same files in the same run.

Rules:
- Each contender runs in its own process. Its start-up counts, and its output is discarded.
- Contenders take turns, and medians are compared. Both get two cores (two processes, each with one half of the files).
- Compare ratios within a run. Rates alone mean little if other work ran on the machine.
- The logs are valid; they are generated, and removed afterwards.
"""
