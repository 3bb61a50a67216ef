package ibm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"ottla/clients/go/internal/control"
)

// rejoinAfter keeps a member whose Consume fails at once from asking without end.
const rejoinAfter = 250 * time.Millisecond

// member is one ConsumerGroup, kept in its group by a goroutine, and the sarama.ConsumerGroupHandler of its sessions.
type member struct {
	consumer *consumer
	group    sarama.ConsumerGroup
	stop     context.CancelFunc
	stopped  chan struct{}

	mu      sync.Mutex
	session sarama.ConsumerGroupSession // nil between two sessions
}

func join(c *consumer, topics []string) (*member, error) {
	group, err := sarama.NewConsumerGroupFromClient(*c.open.Group, c.client)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{consumer: c, group: group, stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(m.stopped)
		m.stay(ctx, topics)
	}()
	go m.hear(ctx)
	return m, nil
}

func (m *member) stay(ctx context.Context, topics []string) {
	for ctx.Err() == nil {
		err := m.group.Consume(ctx, topics, m)
		if err == nil || errors.Is(err, sarama.ErrClosedConsumerGroup) {
			continue
		}
		if !passing(err) {
			m.consumer.inbox.Fail(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rejoinAfter):
		}
	}
}

// hear keeps the errors that sarama reports on the side.
func (m *member) hear(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case err, open := <-m.group.Errors():
			if !open {
				return
			}
			if !passing(err) {
				m.consumer.inbox.Fail(err)
			}
		}
	}
}

// Setup implements sarama.ConsumerGroupHandler.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = session
	return nil
}

// Cleanup implements sarama.ConsumerGroupHandler.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = nil
	return nil
}

// ConsumeClaim implements sarama.ConsumerGroupHandler. What a poll did not take when the claim ends belongs to the next owner.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	defer m.consumer.inbox.Drop(control.Partition{Topic: claim.Topic(), Index: claim.Partition()})
	for message := range claim.Messages() {
		if !m.consumer.inbox.Put(session.Context().Done(), message) {
			return nil
		}
	}
	return nil
}

func (m *member) current() sarama.ConsumerGroupSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

func (m *member) mark(message *sarama.ConsumerMessage) {
	if session := m.current(); session != nil {
		session.MarkMessage(message, "")
	}
}

func (m *member) claims() []control.Partition {
	session := m.current()
	if session == nil {
		return nil
	}
	var partitions []control.Partition
	for topic, indexes := range session.Claims() {
		for _, index := range indexes {
			partitions = append(partitions, control.Partition{Topic: topic, Index: index})
		}
	}
	return partitions
}

// commit sends these next offsets; where nil, the positions of what was polled.
func (m *member) commit(offsets []control.Offset) error {
	session := m.current()
	if session == nil {
		return sarama.ErrRebalanceInProgress
	}
	if offsets == nil {
		for partition, at := range m.consumer.inbox.Positions() {
			session.MarkOffset(partition.Topic, partition.Index, at, "")
		}
	}
	for _, offset := range offsets {
		// The one moves forward only, the other backward only.
		session.MarkOffset(offset.Topic, offset.Index, offset.Number, offset.Metadata)
		session.ResetOffset(offset.Topic, offset.Index, offset.Number, offset.Metadata)
	}
	session.Commit()
	return nil
}

func (m *member) pause(partitions []control.Partition, paused bool) {
	topics := map[string][]int32{}
	for _, partition := range partitions {
		topics[partition.Topic] = append(topics[partition.Topic], partition.Index)
	}
	if paused {
		m.group.Pause(topics)
	} else {
		m.group.Resume(topics)
	}
}

func (m *member) leave() error {
	m.stop()
	<-m.stopped
	return m.group.Close()
}
