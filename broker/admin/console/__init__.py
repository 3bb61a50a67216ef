"""The console: one page on the admin port that shows what a broker does, and the JSON that it reads. `ottla serve --console` imports it.

Rules: everything here is a GET and changes nothing; one answer has a bounded number of rows and bytes; what a partition is asked for at one
time is read in one turn of the loop, what takes long (opening batches) on a thread. What changes something is the admin port's own.
"""
