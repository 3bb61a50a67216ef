package segmentio

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"

	"ottla/clients/go/internal/control"
)

// member is a Reader in a group. Messages are fetched only while it is polled, so that the Reader may drop what it lost in a rebalance.
type member struct {
	*opened
	reader *kafka.Reader
	last   map[control.Partition]kafka.Message
	// pending are messages that were fetched before an error was: the next poll answers them.
	pending []kafka.Message
}

func join(o *opened, topics []string) (*member, error) {
	config := o.config
	config.GroupID, config.GroupTopics = *o.open.Group, topics
	if o.open.Assignor != nil {
		config.GroupBalancers = []kafka.GroupBalancer{balancers[*o.open.Assignor]}
	}
	if ms := o.open.SessionTimeoutMS; ms != nil {
		config.SessionTimeout = control.Milliseconds(*ms)
	}
	if ms := o.open.HeartbeatIntervalMS; ms != nil {
		config.HeartbeatInterval = control.Milliseconds(*ms)
	}
	if ms := o.open.AutoCommitIntervalMS; ms != nil {
		config.CommitInterval = control.Milliseconds(*ms)
	}
	reader, err := newReader(config)
	return &member{opened: o, reader: reader, last: map[control.Partition]kafka.Message{}}, err
}

// newReader checks first: kafka.NewReader panics.
func newReader(config kafka.ReaderConfig) (*kafka.Reader, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return kafka.NewReader(config), nil
}

func (m *member) poll(ctx context.Context, count int) ([]kafka.Message, error) {
	for len(m.pending) < count {
		message, err := m.reader.FetchMessage(ctx)
		if ended(ctx, err) {
			break
		}
		if passing(ctx, err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.pending = append(m.pending, message)
		m.last[control.Partition{Topic: message.Topic, Index: int32(message.Partition)}] = message
	}
	messages := m.pending
	m.pending = nil
	if m.open.AutoCommit == nil || *m.open.AutoCommit {
		return messages, m.commitAll(messages)
	}
	return messages, nil
}

// commitAll is the second half of kafka-go's ReadMessage: what was read is committed, at once or by the interval's timer.
func (m *member) commitAll(messages []kafka.Message) error {
	if len(messages) == 0 {
		return nil
	}
	// The poll's own time may be over.
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	return m.reader.CommitMessages(ctx, messages...)
}

const commitTimeout = 10 * time.Second

func (m *member) commit(ctx context.Context, commit control.Commit) error {
	if commit.Mode == "async" {
		return control.Unsupported("commits when it is told to, or all commits by a timer")
	}
	var messages []kafka.Message
	if commit.Offsets == nil {
		for _, message := range m.last {
			messages = append(messages, message)
		}
	}
	for _, offset := range commit.Offsets {
		if offset.Metadata != "" {
			return control.Unsupported("commits no metadata from a Reader")
		}
		// It commits one past the message that it is given.
		messages = append(messages, kafka.Message{Topic: offset.Topic, Partition: int(offset.Index), Offset: offset.Number - 1})
	}
	return m.reader.CommitMessages(ctx, messages...)
}

func (m *member) position(partition control.Partition) (int64, bool) {
	message, read := m.last[partition]
	return message.Offset + 1, read
}

func (m *member) seek(control.Partition, int64) error {
	return control.Unsupported("moves no Reader of a group: it begins at what was committed")
}

func (m *member) close() error { return m.reader.Close() }
