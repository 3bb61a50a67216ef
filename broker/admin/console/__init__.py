"""The console: one page on the admin port that shows what a broker does, and the JSON that it reads. `ottla serve --console` imports it.

Rules: what it adds to the port changes nothing, but for the schemas by which records are shown; one answer has a bounded number of rows
and bytes; what a partition is asked for at one time is read in one turn of the loop, what takes long (opening batches) on a thread. Faults
and the clock are the admin port's own.
"""
