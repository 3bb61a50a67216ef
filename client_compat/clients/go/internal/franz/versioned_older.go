//go:build older

package franz

import (
	"context"
	"errors"
	"io"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ottla/clients/go/internal/control"
)

// What older versions of franz-go do in their own way, with the API of 1.11: what later ones added is not used.

func listMaxTimestamp(*kadm.Client) lister {
	return func(context.Context, ...string) (kadm.ListedOffsets, error) {
		return nil, control.Unsupported("has no method for the offset of the largest timestamp")
	}
}

// retriedByItself is true for a connection that the broker closed.
func retriedByItself(err error) bool { return errors.Is(err, io.EOF) }

// serverSideBalancer is not called: the releases that this program meets do not enable KIP-848 groups.
func serverSideBalancer() kgo.Opt { panic("no KIP-848 groups") }

var maxBufferedBytes func(n int) kgo.Opt

func atCommitted() kgo.Offset { return kgo.NoResetOffset() }

// resetOptions is one: where to begin, and where to go on once an offset is out of range.
func resetOptions(start, _ kgo.Offset) []kgo.Opt { return []kgo.Opt{kgo.ConsumeResetOffset(start)} }

func describeGroup(ctx context.Context, client *kadm.Client, of control.Group) (any, error) {
	return describeClassic(ctx, client, of.Group)
}

func setTopicIDs(context.Context, *kadm.Client, []kmsg.TxnOffsetCommitRequestTopic) error { return nil }
