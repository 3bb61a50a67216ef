"""`make spark-releases`: the audit corpus on DuckDB and on each supported Spark release; all verdicts have to be equal, byte for byte."""
