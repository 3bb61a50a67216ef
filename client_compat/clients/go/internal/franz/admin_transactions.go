package franz

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ottla/clients/go/internal/control"
)

func (p *program) addTransactionAdmin(ops map[string]control.Op) {
	ops["admin.describe_producers"] = admin(p, describeProducers)
	ops["admin.list_transactions"] = admin(p, listTransactions)
	ops["admin.describe_transaction"] = admin(p, describeTransaction)
	ops["admin.abort_transaction"] = admin(p, abortTransaction)
	ops["admin.fence_producers"] = control.Bind(fenceProducers)
}

func producersOf(ctx context.Context, client *kadm.Client, of control.Partition) ([]kadm.DescribedProducer, error) {
	var set kadm.TopicsSet
	set.Add(of.Topic, of.Index)
	topics, err := client.DescribeProducers(ctx, set)
	if err != nil {
		return nil, err
	}
	partition, ok := topics[of.Topic].Partitions[of.Index]
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	return partition.ActiveProducers.Sorted(), partition.Err
}

func describeProducers(ctx context.Context, client *kadm.Client, of control.Transaction) (any, error) {
	producers, err := producersOf(ctx, client, of.Partition)
	if err != nil {
		return nil, err
	}
	var rows []control.DescribedProducer
	for _, producer := range producers {
		row := control.DescribedProducer{
			ProducerID: producer.ProducerID, Epoch: int32(producer.ProducerEpoch), LastSequence: producer.LastSequence,
		}
		if producer.CurrentTxnStartOffset >= 0 {
			row.TxnStart = control.Known(producer.CurrentTxnStartOffset)
		}
		rows = append(rows, row)
	}
	return control.Rows("producers", rows), nil
}

func listTransactions(ctx context.Context, client *kadm.Client, _ control.Cluster) (any, error) {
	transactions, err := client.ListTransactions(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for _, transaction := range transactions.Sorted() {
		rows = append(rows, []any{transaction.TxnID, transaction.ProducerID, transaction.State})
	}
	return control.Rows("transactions", rows), nil
}

func describeTransaction(ctx context.Context, client *kadm.Client, of control.Transaction) (any, error) {
	transactions, err := client.DescribeTransactions(ctx, of.TransactionalID)
	if err != nil {
		return nil, err
	}
	transaction, ok := transactions[of.TransactionalID]
	if !ok {
		return nil, kerr.TransactionalIDNotFound
	}
	return control.DescribedTransaction{
		State:      transaction.State,
		ProducerID: transaction.ProducerID,
		Epoch:      transaction.ProducerEpoch,
		TimeoutMS:  transaction.TimeoutMillis,
		Partitions: flat(transaction.Topics),
	}, transaction.Err
}

// abortTransaction writes the marker that the hanging transaction lacks, with what its partition knows of its producer (KIP-664).
func abortTransaction(ctx context.Context, client *kadm.Client, of control.Transaction) (any, error) {
	producers, err := producersOf(ctx, client, of.Partition)
	if err != nil {
		return nil, err
	}
	for _, producer := range producers {
		if producer.CurrentTxnStartOffset != of.StartOffset {
			continue
		}
		marker := kadm.TxnMarkers{
			ProducerID:       producer.ProducerID,
			ProducerEpoch:    producer.ProducerEpoch,
			CoordinatorEpoch: max(producer.CoordinatorEpoch, 0),
		}
		marker.Topics.Add(of.Partition.Topic, of.Partition.Index)
		written, err := client.WriteTxnMarkers(ctx, marker)
		if err != nil {
			return nil, err
		}
		return struct{}{}, written[producer.ProducerID].Topics[of.Partition.Topic].Partitions[of.Partition.Index].Err
	}
	return nil, fmt.Errorf("no transaction begins at %d", of.StartOffset)
}

// fenceProducers raises the epochs as Java's admin client does, with an InitProducerId that names no producer; kadm has no method for it.
func fenceProducers(ctx context.Context, names control.Names) (any, error) {
	client, err := kgo.NewClient(common(control.Open{Bootstrap: names.Bootstrap})...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, id := range names.TransactionalIDs {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionalID, request.TransactionTimeoutMillis = &id, 1
		request.ProducerID, request.ProducerEpoch = -1, -1
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}
