# The C types of walk.py, which stays plain Python: Cython reads this file beside it, an interpreter never does.
cimport cython

cdef Py_ssize_t _SHARED_EVERY
cdef Py_ssize_t _SHARED_HEADERS
cdef long long _INT64_MAX
cdef unsigned long long _UINT64_MAX
cdef unsigned long long _UINT32_MAX

@cython.final
cdef class _Cursor:
    cdef const unsigned char[::1] data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef long long timestamp_delta
    cdef int offset_delta
    cdef Py_ssize_t rest_start
    cdef int key_length
    cdef Py_ssize_t key_start
    cdef int value_length
    cdef Py_ssize_t value_start
    cdef int header_count
    cdef Py_ssize_t header_start
    cdef Py_ssize_t unshared_headers

    @cython.locals(pos=Py_ssize_t, end=Py_ssize_t, byte=int, wide="unsigned long long", raw="unsigned long long", half="long long", shift=int)
    cdef long long varint(self, int last_shift) noexcept

    @cython.locals(batch_end=Py_ssize_t, limit=Py_ssize_t, length=Py_ssize_t, why=int)
    cdef int next(self) except -1

    @cython.locals(left=Py_ssize_t, count=Py_ssize_t, why=int)
    cdef int skip_headers(self, Py_ssize_t limit) except -1

    @cython.locals(length=Py_ssize_t)
    cdef int skip_some_headers(self, Py_ssize_t left, Py_ssize_t limit) noexcept

cdef bint _leaves_range(long long base, long long delta) noexcept

@cython.locals(
    cursor=_Cursor, newest="long long", newest_index=Py_ssize_t, newest_offset="long long", oldest="long long", null_key=Py_ssize_t,
    sequential=bint, index=Py_ssize_t, bad=int, timestamp="long long",
)
cpdef scan(data, Py_ssize_t record_count, long long base_timestamp)

@cython.locals(
    cursor=_Cursor, index=Py_ssize_t, bad=int, offsets="long long[::1]", timestamps="long long[::1]", key_starts="int[::1]",
    key_lengths="int[::1]", value_starts="int[::1]", value_lengths="int[::1]", header_starts="int[::1]", header_counts="int[::1]", record_starts="int[::1]",
)
cpdef columns(data, Py_ssize_t record_count, long long base_offset, long long base_timestamp)

@cython.locals(
    size=Py_ssize_t, rows=Py_ssize_t, record_count=Py_ssize_t, ends="int[::1]", row=Py_ssize_t, count=Py_ssize_t, cursor=_Cursor, end=Py_ssize_t,
    bad=int, filler=_HeaderFiller,
)
cpdef header_columns(sections, record_counts)

@cython.final
cdef class _HeaderFiller:
    cdef object key_ends
    cdef bytearray keys
    cdef object value_ends
    cdef bytearray values
    cdef bytearray value_present
    cdef int[::1] key_ends_view
    cdef unsigned char[::1] keys_view
    cdef int[::1] value_ends_view
    cdef unsigned char[::1] values_view
    cdef unsigned char[::1] present_view
    cdef Py_ssize_t at
    cdef Py_ssize_t key_at
    cdef Py_ssize_t value_at

    @cython.locals(at=Py_ssize_t, key_at=Py_ssize_t, value_at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, pos=Py_ssize_t)
    cdef void record(self, _Cursor cursor) noexcept

@cython.locals(cursor=_Cursor, index=Py_ssize_t, bad=int, timestamp="long long")
cpdef find_timestamp(data, Py_ssize_t record_count, long long base_timestamp, long long oldest, long long newest, long long from_delta)

@cython.locals(size=Py_ssize_t, made=_Maker, cursor=_Cursor, index=Py_ssize_t, bad=int)
cpdef renumber(data, Py_ssize_t record_count)

@cython.final
cdef class _Maker:
    cdef bytearray out
    cdef unsigned char[::1] view
    cdef Py_ssize_t at

    @cython.locals(timestamp_delta="long long", start=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t)
    cdef void record(self, _Cursor cursor, long long offset_delta) noexcept

    @cython.locals(raw="unsigned long long")
    cdef void varint(self, long long value) noexcept

    @cython.locals(raw="unsigned long long", size=int)
    cdef int width(self, long long value) noexcept

@cython.final
cdef class Filler:
    cdef long long[::1] offsets
    cdef long long[::1] timestamps
    cdef int[::1] key_ends
    cdef unsigned char[::1] keys
    cdef unsigned char[::1] key_present
    cdef int[::1] value_ends
    cdef unsigned char[::1] values
    cdef unsigned char[::1] value_present
    cdef bint with_keys
    cdef bint with_values
    cdef public Py_ssize_t rows
    cdef public Py_ssize_t key_at
    cdef public Py_ssize_t value_at

    @cython.locals(size=Py_ssize_t, cursor=_Cursor, row=Py_ssize_t, key_at=Py_ssize_t, value_at=Py_ssize_t, end=Py_ssize_t, bad=int)
    cpdef add(self, data, Py_ssize_t record_count, long long base_offset, long long base_timestamp)

    @cython.locals(rows=Py_ssize_t)
    cdef check_room(self, Py_ssize_t record_count, Py_ssize_t size)

    @cython.locals(i=Py_ssize_t)
    cdef Py_ssize_t copy(self, _Cursor cursor, Py_ssize_t start, Py_ssize_t length, Py_ssize_t at, bint into_values) noexcept
