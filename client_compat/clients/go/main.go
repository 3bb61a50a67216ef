// A program of the compatibility matrix: one of the Go clients behind the protocol of ../CONTROL.md.
//
//	go build -o client . && ./client --client franz-go|sarama|kafka-go
package main

import (
	"flag"
	"log"
	"os"
	"slices"
	"strings"

	"ottla/clients/go/internal/control"
	"ottla/clients/go/internal/franz"
	"ottla/clients/go/internal/ibm"
	"ottla/clients/go/internal/segmentio"
)

var clients = map[string]func() control.Client{
	"franz-go": franz.Client,
	"sarama":   ibm.Client,
	"kafka-go": segmentio.Client,
}

func main() {
	var names []string
	for name := range clients {
		names = append(names, name)
	}
	slices.Sort(names)
	name := flag.String("client", "", "the client: "+strings.Join(names, ", "))
	flag.Parse()
	client, known := clients[*name]
	if !known {
		log.Fatalf("--client has to be one of %s", strings.Join(names, ", "))
	}
	if err := control.Serve(client(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
