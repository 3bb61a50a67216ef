package control

import "time"

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
