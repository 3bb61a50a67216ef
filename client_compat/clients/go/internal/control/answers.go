package control

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Sent is where a record went. Timestamp is nil where the client does not tell it.
type Sent struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp *int64 `json:"timestamp,omitempty"`
}

// Failed is the result of a record that went nowhere.
type Failed struct {
	Error Failure `json:"error"`
}

// Read is one consumed record. TimestampType is nil where the client does not tell it.
type Read struct {
	Topic         string   `json:"topic"`
	Partition     int32    `json:"partition"`
	Offset        int64    `json:"offset"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []Header `json:"headers"`
	Timestamp     int64    `json:"timestamp"`
	TimestampType *string  `json:"timestamp_type"`
}

// Records is the answer of consumer.poll.
func Records(records []Read) any {
	if records == nil {
		records = []Read{}
	}
	return map[string]any{"records": records}
}

// Rows is an answer of arrays under one name: Rows("offsets", rows).
func Rows[R any](name string, rows []R) any {
	if rows == nil {
		rows = []R{}
	}
	return map[string]any{name: rows}
}

// Outcomes is the answer "results" by name, null for what went well.
type Outcomes map[string]*Failure

// Set notes the outcome of one name.
func (o Outcomes) Set(name string, err error, explain Explain) {
	if err == nil {
		o[name] = nil
		return
	}
	failure := explain.Failure(err)
	o[name] = &failure
}

// Answer is the outcomes as the answer of an operation.
func (o Outcomes) Answer() any { return map[string]any{"results": o} }

// Milliseconds makes a duration of an argument in milliseconds.
func Milliseconds(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// Handles holds the open objects of one kind by the names that the runner gave them. An operation that overran its limit goes on beside
// the next one, hence the lock.
type Handles[T any] struct {
	mu      sync.Mutex
	objects map[string]T
}

// Put keeps an object under a handle.
func (h *Handles[T]) Put(handle string, object T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects == nil {
		h.objects = make(map[string]T)
	}
	h.objects[handle] = object
}

// Get returns the object of a handle.
func (h *Handles[T]) Get(handle string) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, open := h.objects[handle]
	if !open {
		return object, Failure{Code: "CLIENT:BAD_REQUEST", Message: fmt.Sprintf("no open object has the handle %q", handle)}
	}
	return object, nil
}

// Take returns the object of a handle and forgets it.
func (h *Handles[T]) Take(handle string) (T, error) {
	object, err := h.Get(handle)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.objects, handle)
	return object, err
}

// Empty returns every object and forgets them.
func (h *Handles[T]) Empty() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects := slices.Collect(maps.Values(h.objects))
	h.objects = nil
	return objects
}
