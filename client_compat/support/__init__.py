"""What the demo, the benchmark, the crash test and the fuzzer share: broker processes, ports, progress."""
