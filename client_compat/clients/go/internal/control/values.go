package control

import (
	"bytes"
	"encoding/json"
)

// The hooks of a producer: what the serializer and the interceptor of every library do.
const (
	InterceptedHeader = "intercepted"
	InterceptedValue  = "1"
)

// CompactJSON rewrites a JSON text with members sorted by name and no white space; numbers keep their digits.
func CompactJSON(text []byte) ([]byte, error) {
	var value any
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	if err := reader.Decode(&value); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	writer := json.NewEncoder(&compact)
	writer.SetEscapeHTML(false)
	if err := writer.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(compact.Bytes(), []byte("\n")), nil
}
