package control

import "context"

// SendEach is producer.send for a client that answers each record on a channel of its own. What put returns is the record's result, nil
// where the channel will have it.
func SendEach(ctx context.Context, send Send, put func(Record, chan any) (any, error)) (any, error) {
	results := make([]any, len(send.Records))
	answers := make([]chan any, len(send.Records))
	settle := func(i int) (err error) {
		if results[i] == nil {
			results[i], err = awaited(ctx, answers[i])
		}
		return err
	}
	for i, record := range send.Records {
		var err error
		answers[i] = make(chan any, 1)
		if results[i], err = put(record, answers[i]); err == nil && send.Mode == "sync" {
			err = settle(i)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range results {
		if err := settle(i); err != nil {
			return nil, err
		}
	}
	return Rows("results", results), nil
}

func awaited(ctx context.Context, answer chan any) (any, error) {
	select {
	case result := <-answer:
		return result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
