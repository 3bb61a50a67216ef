# The C types of batch_walk.py, which stays plain Python: Cython reads this file beside it, an interpreter never does.
cimport cython

@cython.final
cdef class _Bytes:
    cdef const unsigned char[::1] data
    cdef Py_ssize_t end

    @cython.locals(value="long long")
    cdef long long u32(self, Py_ssize_t at) noexcept

    @cython.locals(value="long long")
    cdef long long i32(self, Py_ssize_t at) noexcept

    @cython.locals(value="long long")
    cdef long long i64(self, Py_ssize_t at) noexcept

    @cython.locals(value=int)
    cdef int i16(self, Py_ssize_t at) noexcept

    @cython.locals(left=Py_ssize_t, length="long long", magic=int)
    cdef long long step(self, Py_ssize_t at, Py_ssize_t limit, long long max_length, bint whole) noexcept

@cython.locals(source=_Bytes, at=Py_ssize_t, rows=Py_ssize_t, length="long long", stop=int)
cpdef walk_headers(data, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t rows_max, long long max_length, bint whole)

@cython.locals(
    row=Py_ssize_t, length="long long", magic=int, positions="long long[::1]", base_offsets="long long[::1]", batch_lengths="int[::1]",
    leader_epochs="int[::1]", magics="signed char[::1]", crcs="unsigned int[::1]", attributes="short[::1]", last_offset_deltas="int[::1]",
    base_timestamps="long long[::1]", max_timestamps="long long[::1]", producer_ids="long long[::1]", producer_epochs="short[::1]",
    base_sequences="int[::1]", record_counts="int[::1]",
)
cdef _fill(_Bytes source, Py_ssize_t at, Py_ssize_t rows, found)
