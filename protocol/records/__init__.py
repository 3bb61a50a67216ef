"""Record batches v2: header, records, compression, CRC-32C, control records."""
