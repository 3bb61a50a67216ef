"""`make spark-releases`: audits the same logs with DuckDB and with each supported Spark release, whole and divided into slices. All
verdicts have to be equal, byte for byte."""
