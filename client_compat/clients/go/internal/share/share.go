//go:build !older

// Package share is franz-go's share consumer as a process that answers commands, as client_compat/kafka/ShareMember.java does: one command a
// line, and one line as its answer.
//
// franz-go has no explicit mode: a record that was not acknowledged is accepted by the next poll.
package share

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollWait  = 20 * time.Second
	flushWait = 20 * time.Second
)

var statuses = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew}

type member struct {
	client *kgo.Client
	held   []*kgo.Record

	mu      sync.Mutex // of results, which the client's callback adds to
	results map[partition]error
}

type partition struct {
	topic string
	index int32
}

// Serve answers the commands of in until it ends or says "close". The arguments are bootstrap servers, group and topic.
func Serve(arguments []string, in io.Reader, out io.Writer) error {
	of := &member{results: map[partition]error{}}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(arguments[0], ",")...),
		kgo.ShareGroup(arguments[1]),
		kgo.ConsumeTopics(arguments[2]),
		kgo.ShareAckCallback(of.acknowledged),
	)
	if err != nil {
		return err
	}
	of.client = client
	commands := bufio.NewScanner(in)
	for commands.Scan() && commands.Text() != "close" {
		if _, err := fmt.Fprintln(out, of.answer(strings.Fields(commands.Text()))); err != nil {
			return err
		}
	}
	client.Close()
	_, err = fmt.Fprintln(out, "closed")
	return err
}

func (of *member) answer(words []string) string {
	switch words[0] {
	case "poll":
		return of.poll(words[1:])
	case "commit":
		return of.commit()
	}
	status, known := statuses[words[0]]
	if !known {
		return "unknown command"
	}
	for _, offset := range words[1:] {
		for _, record := range of.held {
			if strconv.FormatInt(record.Offset, 10) == offset {
				record.Ack(status)
			}
		}
	}
	return "done"
}

// poll waits for records, for as many milliseconds as are given.
func (of *member) poll(words []string) string {
	wait := pollWait
	if len(words) > 0 {
		milliseconds, err := strconv.Atoi(words[0])
		if err != nil {
			return err.Error()
		}
		wait = time.Duration(milliseconds) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var found []string
	of.client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
		of.held = append(of.held, record)
		found = append(found, fmt.Sprintf("%d:%s:%d", record.Offset, record.Value, record.DeliveryCount()))
	})
	return orNothing(found)
}

// commit waits for the answers to all acknowledgements, and returns one result per partition, as Java's commitSync does: "ok", or the first
// error. A fetch may carry acknowledgements that the program has just made, and the flush sends the rest, so a partition may have several
// answers.
func (of *member) commit() string {
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	if err := of.client.FlushAcks(ctx); err != nil {
		return err.Error()
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	var found []string
	for _, err := range of.results {
		if err == nil {
			found = append(found, "ok")
		} else {
			found = append(found, err.Error())
		}
	}
	clear(of.results)
	slices.Sort(found)
	return orNothing(found)
}

func (of *member) acknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, result := range results {
		at := partition{result.Topic, result.Partition}
		if of.results[at] == nil {
			of.results[at] = result.Err
		}
	}
}

func orNothing(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
