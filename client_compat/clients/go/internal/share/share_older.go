//go:build older

package share

import (
	"errors"
	"io"
)

// Serve fails: older versions of franz-go have no share consumers.
func Serve([]string, io.Reader, io.Writer) error {
	return errors.New("this version of franz-go has no share consumers")
}
