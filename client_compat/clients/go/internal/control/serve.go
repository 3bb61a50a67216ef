// Package control speaks the protocol of ../CONTROL.md: one JSON request a line in, one answer a line out, in order.
//
// The rules here: a client is a table of operations; what is not in the table is unsupported; a request that overran its limit is
// answered, and its late result thrown away, so that a library without deadlines cannot hang the run.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// An Op runs one operation on the arguments of its request. What it returns is the answer's "ok".
type Op func(ctx context.Context, arguments []byte) (any, error)

// A Client is one library behind the protocol.
type Client struct {
	Name string
	// Version is the library's module path: the version is read from the build.
	Module string
	Ops    map[string]Op
	// Lacks says, for an operation that is not in Ops, what the library does not have.
	Lacks   map[string]string
	Explain Explain
	// Close ends everything that is still open.
	Close func()
}

const (
	defaultLimit = 30 * time.Second
	// A library that minds its deadline gets this long to say so itself.
	grace = 3 * time.Second
)

type envelope struct {
	ID        json.RawMessage `json:"id"`
	Op        string          `json:"op"`
	TimeoutMS *int64          `json:"timeout_ms"`
}

func (e envelope) limit() time.Duration {
	if e.TimeoutMS == nil {
		return defaultLimit
	}
	return time.Duration(*e.TimeoutMS) * time.Millisecond
}

type answer struct {
	ID          json.RawMessage `json:"id"`
	OK          any             `json:"ok,omitempty"`
	Error       *Failure        `json:"error,omitempty"`
	Unsupported string          `json:"unsupported,omitempty"`
}

// Serve announces the client, answers every request of in, and returns once in ends.
func Serve(client Client, in io.Reader, out io.Writer) error {
	defer client.Close()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	ready := map[string]string{"client": client.Name, "version": moduleVersion(client.Module), "runtime": runtime.Version()}
	if err := lines.Encode(map[string]any{"ready": ready}); err != nil {
		return err
	}
	requests := bufio.NewReader(in)
	for {
		line, err := requests.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := lines.Encode(client.answer(line)); err != nil {
			return err
		}
	}
}

func (c Client) answer(line []byte) answer {
	var request envelope
	if err := json.Unmarshal(line, &request); err != nil {
		return answer{ID: json.RawMessage("null"), Error: &Failure{Code: "CLIENT:BAD_REQUEST", Message: err.Error()}}
	}
	op, known := c.Ops[request.Op]
	if !known {
		return answer{ID: request.ID, Unsupported: c.lack(request.Op)}
	}
	ok, err := limited(request, op, line)
	var unsupported Unsupported
	switch {
	case errors.As(err, &unsupported):
		return answer{ID: request.ID, Unsupported: c.Name + " " + string(unsupported)}
	case err != nil:
		failure := c.Explain.Failure(err)
		return answer{ID: request.ID, Error: &failure}
	}
	return answer{ID: request.ID, OK: ok}
}

func (c Client) lack(op string) string {
	if what, known := c.Lacks[op]; known {
		return c.Name + " " + what
	}
	return fmt.Sprintf("%s: the program has no operation %q", c.Name, op)
}

func limited(request envelope, op Op, arguments []byte) (any, error) {
	type outcome struct {
		ok  any
		err error
	}
	ctx, cancel := context.WithTimeout(context.Background(), request.limit())
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		ok, err := op(ctx, arguments)
		done <- outcome{ok, err}
	}()
	select {
	case result := <-done:
		return result.ok, result.err
	case <-time.After(request.limit() + grace):
		return nil, Failure{Code: "CLIENT:TIMEOUT", Message: fmt.Sprintf("no answer within %s", request.limit())}
	}
}
