"""The console: a web page on the admin port that shows what a broker does, or what passes through a gateway (Ottla's proxy in front of a
cluster), and the JSON API behind the page. Only `ottla serve --console` and `ottla gateway --console` import it.

Rules:
- The console's API is read-only, except for the schemas that decode records. Faults and the clock belong to the admin port's own API.
  Reading the wire log turns it on for a while, which changes nothing that clients see.
- Every response has a bounded number of rows and bytes.
- A partition's offsets and bytes are read in one turn of the loop, so that they agree; slow work (decompressing) is done on a thread.
"""
