// A program of the compatibility matrix: one of the Go clients behind the protocol of ../CONTROL.md.
//
//	go build -o client . && ./client --client franz-go|sarama|kafka-go
//
// Or franz-go's share consumer behind the commands of internal/share:
//
//	./client --share BOOTSTRAP GROUP TOPIC
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
	"ottla/clients/go/internal/share"
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
	shares := flag.Bool("share", false, "a share consumer of the bootstrap servers, group and topic that follow")
	flag.Parse()
	if *shares {
		if flag.NArg() != 3 {
			log.Fatal("--share needs bootstrap servers, a group and a topic")
		}
		if err := share.Serve(flag.Args(), os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	client, known := clients[*name]
	if !known {
		log.Fatalf("--client has to be one of %s", strings.Join(names, ", "))
	}
	if err := control.Serve(client(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
