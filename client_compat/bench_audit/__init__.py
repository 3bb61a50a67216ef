"""`make bench-audit`: how fast the audit reads and checks logs, compared with `kafka-dump-log` on the same files in the same run.

Rules:
- Each contender (the audit or kafka-dump-log) runs in its own process. Its start-up counts, and its output is discarded.
- Contenders take turns, and medians are compared. Each gets two cores (two processes, each with one half of the files).
- Compare ratios within a run. Rates alone mean little if other work ran on the machine.
- The logs are valid; they are generated, and removed afterwards.
"""
