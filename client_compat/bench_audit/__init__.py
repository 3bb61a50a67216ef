"""`make bench-audit`: how fast the audit reads and judges logs, beside `kafka-dump-log` on the same files in the same run.

Rules that hold here: every contender is a process of its own, start-up included, with its output thrown away; contenders take turns, and
medians are compared; both get two cores (two processes over one half of the files each). Rates taken while other work runs on the machine
mean little by themselves, ratios of one run mean more. The logs are valid, made here, and removed afterwards.
"""
