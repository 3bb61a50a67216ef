// kfake: franz-go's in-memory Kafka broker as a process, a peer of the bench.
//
//	go build -o kfake .
//	./kfake --port 9192 [--partitions 1] [--data-dir DIR]
//
// One broker listens on 127.0.0.1. Topics are made on first use with --partitions partitions. Without --data-dir everything lives in
// memory; with it, state is written there and read back at the next start. The line "kfake ready on 127.0.0.1:PORT" goes to standard
// output once connections are accepted; SIGTERM or SIGINT ends it with exit code 0.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "port to listen on, on 127.0.0.1; 0 takes a free one")
	partitions := flag.Int("partitions", 1, "partitions of a topic that names no number")
	dataDir := flag.String("data-dir", "", "directory to persist to; empty keeps everything in memory")
	flag.Parse()

	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)

	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(*port),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(*partitions),
	}
	if *dataDir != "" {
		options = append(options, kfake.DataDir(*dataDir))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatalf("kfake did not start: %v", err)
	}
	fmt.Printf("kfake ready on %s\n", cluster.ListenAddrs()[0])
	<-stopped
	cluster.Close()
}
