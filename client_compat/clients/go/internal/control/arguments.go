package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
)

// Bind makes an Op of a function with typed arguments. A misspelt or unknown argument is an error: silently ignored, it would make a
// scenario mean less than it says.
func Bind[A any](run func(context.Context, A) (any, error)) Op {
	return func(ctx context.Context, arguments []byte) (any, error) {
		var typed A
		if err := decode(arguments, &typed); err != nil {
			return nil, Failure{Code: "CLIENT:BAD_REQUEST", Message: err.Error()}
		}
		return run(ctx, typed)
	}
}

// Do is Bind for an operation that answers {}.
func Do[A any](run func(context.Context, A) error) Op {
	return Bind(func(ctx context.Context, arguments A) (any, error) { return struct{}{}, run(ctx, arguments) })
}

func decode(line []byte, into any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return err
	}
	for _, ofEnvelope := range []string{"id", "op", "timeout_ms"} {
		delete(members, ofEnvelope)
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(rest))
	strict.DisallowUnknownFields()
	return strict.Decode(into)
}

// Open is common to producers and consumers.
type Open struct {
	Handle    string    `json:"handle"`
	Bootstrap string    `json:"bootstrap"`
	ClientID  string    `json:"client_id"`
	Security  *Security `json:"security"`
}

// Connect is admin.connect.
type Connect struct {
	Bootstrap string    `json:"bootstrap"`
	Security  *Security `json:"security"`
}

// Record is one record to send. Key and value are nil for null.
type Record struct {
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
	Partition *int32   `json:"partition"`
	Timestamp *int64   `json:"timestamp"`
}

// Send is producer.send.
type Send struct {
	Object
	Topic   string   `json:"topic"`
	Records []Record `json:"records"`
	Mode    string   `json:"mode"`
}

// SendOffsets is producer.send_offsets.
type SendOffsets struct {
	Object
	Consumer string   `json:"consumer"`
	Offsets  []Offset `json:"offsets"`
}

// Object names the open object of an operation; of some it is all that they carry.
type Object struct {
	Handle string `json:"handle"`
}

// Of is the handle of any operation on an open object.
func (o Object) Of() string { return o.Handle }

// Subscribe is consumer.subscribe.
type Subscribe struct {
	Object
	Topics  []string `json:"topics"`
	Pattern string   `json:"pattern"`
}

// Partitions is any consumer operation on partitions.
type Partitions struct {
	Object
	Partitions []Partition `json:"partitions"`
}

// Poll is consumer.poll; its timeout is the deadline of the context.
type Poll struct {
	Object
	Count int `json:"count"`
}

// Commit is consumer.commit. Nil offsets: the positions of what was polled.
type Commit struct {
	Object
	Offsets []Offset `json:"offsets"`
	Mode    string   `json:"mode"`
}

// Seek is consumer.seek.
type Seek struct {
	Object
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    Where  `json:"offset"`
}

// Times is consumer.offsets_for_times: each offset is a timestamp.
type Times struct {
	Object
	Times []Offset `json:"times"`
}

// Where is an offset, or its word ("beginning", "end", "earliest", "latest", "max_timestamp").
type Where struct {
	Word   string
	Number int64
}

// UnmarshalJSON takes a number or a string.
func (w *Where) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &w.Word)
	}
	return json.Unmarshal(data, &w.Number)
}

// Partition is [topic, index].
type Partition struct {
	Topic string
	Index int32
}

// Compare orders by topic and index.
func (p Partition) Compare(other Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, other.Topic), cmp.Compare(p.Index, other.Index))
}

// UnmarshalJSON takes [topic, index].
func (p *Partition) UnmarshalJSON(data []byte) error { return row(data, &p.Topic, &p.Index) }

// MarshalJSON gives [topic, index].
func (p Partition) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.Topic, p.Index}) }

// Offset is [topic, index, offset] with metadata where it was given. In a time's place it is a timestamp.
type Offset struct {
	Partition
	Where
	Metadata string
}

// UnmarshalJSON takes [topic, index, offset, metadata?].
func (o *Offset) UnmarshalJSON(data []byte) error {
	return row(data, &o.Topic, &o.Index, &o.Where, &o.Metadata)
}

// MarshalJSON gives [topic, index, offset].
func (o Offset) MarshalJSON() ([]byte, error) { return json.Marshal([]any{o.Topic, o.Index, o.Number}) }

// Header is [name, value].
type Header struct {
	Name  string
	Value []byte
}

// UnmarshalJSON takes [name, value].
func (h *Header) UnmarshalJSON(data []byte) error { return row(data, &h.Name, &h.Value) }

// MarshalJSON gives [name, value].
func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

// row decodes an array's elements into typed places; elements at its end may be missing.
func row(data []byte, places ...any) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(data, &elements); err != nil {
		return err
	}
	if len(elements) > len(places) {
		return fmt.Errorf("%d elements where at most %d belong: %s", len(elements), len(places), data)
	}
	for i, element := range elements {
		if err := json.Unmarshal(element, places[i]); err != nil {
			return err
		}
	}
	return nil
}
