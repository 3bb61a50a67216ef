// Starts Kafka by the Go module of testcontainers, as a test does, and produces and consumes through it: `start go IMAGE`.
// It prints the seconds from the call to the broker that the module calls ready.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

const message = "through the module"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, image string) (err error) {
	began := time.Now()
	container, err := kafka.Run(ctx, image)
	seconds := time.Since(began).Seconds()
	defer func() {
		if end := testcontainers.TerminateContainer(container); err == nil {
			err = end
		}
	}()
	if err != nil {
		return err
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("msgs"), kgo.ConsumerGroup("g"))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "msgs", Value: []byte(message)}).FirstErr(); err != nil {
		return err
	}
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return err
	}
	if got := string(fetches.Records()[0].Value); got != message {
		return fmt.Errorf("consumed %q", got)
	}
	fmt.Println(seconds)
	return nil
}
