package control

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A Failure is an error in the protocol's words. A flag is nil where the client does not say.
type Failure struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retriable *bool  `json:"retriable"`
	Fatal     *bool  `json:"fatal"`
	Abortable *bool  `json:"abortable"`
}

func (f Failure) Error() string { return f.Code + ": " + f.Message }

// Unsupported is the rest of a sentence that begins with the client's name: what its public API cannot do.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Numbered names an error by Kafka's number of it. The names of all three libraries come from one table, for two of them have none.
func Numbered(code int16, message string) Failure {
	var known *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &known) {
		return Failure{Code: known.Message, Message: message}
	}
	return Failure{Code: "NONE", Message: message}
}

// An Explain names a library's own errors; it returns the zero Failure for others.
type Explain func(error) Failure

// Failure names any error: those of this package first, then the library's own.
func (explain Explain) Failure(err error) Failure {
	var named Failure
	if errors.As(err, &named) {
		return named
	}
	if failure := explain(err); failure.Code != "" {
		return failure
	}
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return Failure{Code: "CLIENT:TIMEOUT", Message: err.Error()}
	case errors.As(err, &network):
		return Failure{Code: "CLIENT:NETWORK", Message: err.Error()}
	}
	return Failure{Code: "CLIENT:ERROR", Message: err.Error()}
}

// Known is a value of an optional member that the client does tell.
func Known[T any](value T) *T { return &value }

// A Lack is something asked for that the client has no setting for.
type Lack struct {
	Asked bool
	// What completes the sentence "<client> has no ...".
	What string
}

// Missing returns Unsupported for the first lack that was asked for.
func Missing(lacks ...Lack) error {
	for _, lack := range lacks {
		if lack.Asked {
			return Unsupported("has no " + lack.What)
		}
	}
	return nil
}
