"""`make spark-releases`: the audit corpus, whole and in slices, on DuckDB and on each supported Spark release; all verdicts have to be
equal, byte for byte."""
