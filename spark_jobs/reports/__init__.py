"""The verdict in the forms that people and programs read: one HTML page, JUnit XML, Parquet."""
