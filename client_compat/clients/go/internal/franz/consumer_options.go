package franz

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/clients/go/internal/control"
)

func (c *consumer) options() ([]kgo.Opt, error) {
	options := common(c.open.Open)
	if reset := c.open.Reset; reset != nil {
		start, lost, err := resets(*reset, c.open.Group != nil)
		if err != nil {
			return nil, err
		}
		options = append(options, resetOptions(start, lost)...)
	}
	if isolation := c.open.Isolation; isolation != nil && *isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	add := func(value *int, option func(int) kgo.Opt) {
		if value != nil {
			options = append(options, option(*value))
		}
	}
	add(c.open.FetchMinBytes, func(n int) kgo.Opt { return kgo.FetchMinBytes(int32(n)) })
	add(c.open.FetchMaxWaitMS, func(ms int) kgo.Opt { return kgo.FetchMaxWait(control.Milliseconds(ms)) })
	add(c.open.FetchMaxBytes, func(n int) kgo.Opt { return kgo.FetchMaxBytes(int32(n)) })
	add(c.open.PartitionFetchBytes, func(n int) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) })
	return options, nil
}

func resets(name string, grouped bool) (start, lost kgo.Offset, err error) {
	switch name {
	case "earliest":
		return kgo.NewOffset().AtStart(), kgo.NewOffset().AtStart(), nil
	case "latest":
		return kgo.NewOffset().AtEnd(), kgo.NewOffset().AtEnd(), nil
	case "none":
		if grouped {
			return atCommitted(), kgo.NoResetOffset(), nil
		}
		return kgo.NoResetOffset(), kgo.NoResetOffset(), nil
	}
	return start, lost, fmt.Errorf("no reset %q", name)
}

// groupOptions are those of a member of a group; none without a group.
func (c *consumer) groupOptions() []kgo.Opt {
	if c.open.Group == nil {
		return nil
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(*c.open.Group),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
		// What a committed transaction may still change is waited for, as Java's consumer does.
		kgo.RequireStableFetchOffsets(),
	}
	if id := c.open.InstanceID; id != nil {
		options = append(options, kgo.InstanceID(*id))
	}
	if protocol := c.open.GroupProtocol; protocol != nil && *protocol == "consumer" {
		options = append(options, serverSideBalancer())
	}
	if assignor := c.open.Assignor; assignor != nil {
		options = append(options, kgo.Balancers(balancers[*assignor]))
	}
	if !c.autoCommits() {
		options = append(options, kgo.DisableAutoCommit())
	} else if ms := c.open.AutoCommitIntervalMS; ms != nil {
		options = append(options, kgo.AutoCommitInterval(control.Milliseconds(*ms)))
	}
	if ms := c.open.SessionTimeoutMS; ms != nil {
		options = append(options, kgo.SessionTimeout(control.Milliseconds(*ms)))
	}
	if ms := c.open.HeartbeatIntervalMS; ms != nil {
		options = append(options, kgo.HeartbeatInterval(control.Milliseconds(*ms)))
	}
	return options
}

// With the server's balancing kgo names the server's assignor by the kind of the client's: range, or uniform for a sticky one.
var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"uniform":            kgo.StickyBalancer(),
}

func (c *consumer) autoCommits() bool { return c.open.AutoCommit == nil || *c.open.AutoCommit }

func (c *consumer) onAssigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, indexes := range partitions {
		for _, index := range indexes {
			c.assigned[control.Partition{Topic: topic, Index: index}] = true
		}
	}
}

// onRevoked commits all that was polled, for a poll's answer has left the program: kgo's own default holds the last poll back, which
// its user may still be working on.
func (c *consumer) onRevoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	if c.autoCommits() {
		// A commit that fails here leaves records to be read again, and kgo logs it.
		_ = client.CommitUncommittedOffsets(ctx)
	}
	c.onLost(ctx, client, partitions)
}

func (c *consumer) onLost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, indexes := range partitions {
		for _, index := range indexes {
			delete(c.assigned, control.Partition{Topic: topic, Index: index})
			delete(c.positions, control.Partition{Topic: topic, Index: index})
		}
	}
}
