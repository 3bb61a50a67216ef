//go:build !older

package franz

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ottla/clients/go/internal/control"
)

// What today's franz-go does in its own way; versioned_older.go is for the versions pinned in ../../older.

func listMaxTimestamp(client *kadm.Client) lister { return client.ListMaxTimestampOffsets }

func retriedByItself(err error) bool { return kgo.IsRetryableBrokerErr(err) }

func serverSideBalancer() kgo.Opt { return kgo.ServerSideBalancer() }

var maxBufferedBytes = func(n int) kgo.Opt { return kgo.MaxBufferedBytes(n) }

func atCommitted() kgo.Offset { return kgo.NewOffset().AtCommitted() }

// resetOptions are two since 1.22: where to begin, and where to go on once an offset is out of range. The protocol's "reset" is both.
func resetOptions(start, lost kgo.Offset) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(lost)}
}

// describeGroup asks as for a consumer group and, where it is none, as for a classic one, as Java's admin client does.
func describeGroup(ctx context.Context, client *kadm.Client, of control.Group) (any, error) {
	groups, err := client.DescribeConsumerGroups(ctx, of.Group)
	if err != nil {
		return nil, err
	}
	group := groups[of.Group]
	if errors.Is(group.Err, kerr.GroupIDNotFound) || errors.Is(group.Err, kerr.UnsupportedVersion) {
		return describeClassic(ctx, client, of.Group)
	}
	if group.Err != nil {
		return nil, group.Err
	}
	members := []control.Member{}
	for _, member := range group.Members {
		members = append(members, control.Member{
			ID: member.MemberID, ClientID: member.ClientID, InstanceID: member.InstanceID, Partitions: flat(member.Assignment),
		})
	}
	return map[string]any{"state": group.State, "type": "consumer", "assignor": group.AssignorName, "members": members}, nil
}

// setTopicIDs names the topics by id too, as kgo does: since version 6 the request carries nothing else (KIP-1319).
func setTopicIDs(ctx context.Context, client *kadm.Client, topics []kmsg.TxnOffsetCommitRequestTopic) error {
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = topic.Topic
	}
	found, err := client.ListTopics(ctx, names...)
	if err != nil {
		return err
	}
	for i, name := range names {
		topics[i].TopicID = found[name].ID
	}
	return nil
}
