"""The console: one page on the admin port that shows what a broker does, and the JSON API behind it. `ottla serve --console` imports it.

Rules:
- The console's API is read-only, except for the schemas that decode records. Faults and the clock belong to the admin port's own API.
- Every response has a bounded number of rows and bytes.
- A partition's offsets and bytes are read in one turn of the loop, so that they agree; slow work (decompressing) is done on a thread.
"""
