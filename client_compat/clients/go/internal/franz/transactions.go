package franz

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ottla/clients/go/internal/control"
)

func begin(_ context.Context, producer *producer, _ control.Object) error {
	producer.records, producer.offsets = false, false
	return producer.client.BeginTransaction()
}

func commit(ctx context.Context, producer *producer, of control.Object) error {
	if producer.offsets && !producer.records {
		// EndTransaction would do nothing and say that all is well.
		return control.Unsupported("ends no transaction that holds nothing but the offsets of another client's group")
	}
	if err := producer.client.Flush(ctx); err != nil {
		return err
	}
	return producer.client.EndTransaction(ctx, kgo.TryCommit)
}

func abort(ctx context.Context, producer *producer, _ control.Object) error {
	if err := producer.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	return producer.client.EndTransaction(ctx, kgo.TryAbort)
}

// sendOffsets issues the two requests that kgo's GroupTransactSession issues. The session itself cannot be used: it is one client that
// consumes and produces, and commits all that it polled, while the protocol's producer and consumer are two.
func (p *program) sendOffsets(ctx context.Context, producer *producer, send control.SendOffsets) error {
	consumer, err := p.consumers.Get(send.Consumer)
	if err != nil {
		return err
	}
	if producer.transactional == nil {
		return control.Failure{Code: "CLIENT:BAD_REQUEST", Message: "the producer has no transactional id"}
	}
	id, epoch, err := producer.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = *producer.transactional, id, epoch, consumer.group()
	added, err := add.RequestWith(ctx, producer.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return err
	}
	producer.offsets = true
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = *producer.transactional, id, epoch, consumer.group()
	commit.MemberID, commit.Generation = consumer.member()
	commit.InstanceID = consumer.open.InstanceID
	commit.Topics = txnOffsets(send.Offsets)
	if err := setTopicIDs(ctx, consumer.admin, commit.Topics); err != nil {
		return err
	}
	committed, err := commit.RequestWith(ctx, producer.client)
	if err != nil {
		return err
	}
	for _, topic := range committed.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func txnOffsets(offsets []control.Offset) []kmsg.TxnOffsetCommitRequestTopic {
	byTopic := map[string][]kmsg.TxnOffsetCommitRequestTopicPartition{}
	for _, offset := range offsets {
		partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = offset.Index, offset.Number
		byTopic[offset.Topic] = append(byTopic[offset.Topic], partition)
	}
	var topics []kmsg.TxnOffsetCommitRequestTopic
	for name, partitions := range byTopic {
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = name, partitions
		topics = append(topics, topic)
	}
	return topics
}
