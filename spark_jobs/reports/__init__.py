"""The verdict in other formats: one HTML page, JUnit XML, Parquet."""
