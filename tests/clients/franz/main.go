// franz-go carrying out a script; see script.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type script struct {
	Bootstrap  string  `json:"bootstrap_servers"`
	ClientID   string  `json:"client_id"`
	Group      *string `json:"group"`
	Topic      string  `json:"topic"`
	Reset      string  `json:"reset"`
	Commit     string  `json:"commit"`
	Interval   int     `json:"commit_interval"`
	InstanceID *string `json:"instance_id"`
	Session    int     `json:"session_timeout"`
	PerPoll    int     `json:"records_per_poll"`
	PerRecord  float64 `json:"seconds_per_record"`
	Act        string  `json:"act"`
	ActAfter   int     `json:"act_after"`
}

type line struct {
	Event         string   `json:"event"`
	Text          string   `json:"text,omitempty"`
	Partition     int32    `json:"partition"`
	Offset        int64    `json:"offset"`
	Timestamp     int64    `json:"timestamp"`
	TimestampType int8     `json:"timestamp_type"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       [][2]any `json:"headers"`
}

var output = bufio.NewWriter(os.Stdout)

func write(one line) {
	text, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	output.Write(append(text, '\n'))
	if one.Event != "record" {
		output.Flush()
	}
}

func show(record *kgo.Record) {
	headers := [][2]any{}
	for _, header := range record.Headers {
		headers = append(headers, [2]any{header.Key, header.Value})
	}
	write(line{
		Event: "record", Partition: record.Partition, Offset: record.Offset,
		Timestamp: record.Timestamp.UnixMilli(), TimestampType: record.Attrs.TimestampType(),
		Key: record.Key, Value: record.Value, Headers: headers,
	})
}

func (s script) options() []kgo.Opt {
	reports := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 {
				write(line{Event: event, Text: fmt.Sprint(partitions)})
			}
		}
	}
	reset := kgo.NewOffset().AtStart()
	switch s.Reset {
	case "latest":
		reset = kgo.NewOffset().AtEnd()
	case "none":
		reset = kgo.NoResetOffset()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap), kgo.ClientID(s.ClientID), kgo.ConsumeResetOffset(reset),
		kgo.ConsumerGroup(*s.Group), kgo.ConsumeTopics(s.Topic),
		kgo.SessionTimeout(time.Duration(s.Session) * time.Millisecond),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(reports("assigned")), kgo.OnPartitionsLost(reports("lost")),
	}
	if s.InstanceID != nil {
		options = append(options, kgo.InstanceID(*s.InstanceID))
	}
	if s.Commit == "auto" {
		interval := time.Duration(s.Interval) * time.Millisecond
		return append(options, kgo.AutoCommitInterval(interval), kgo.OnPartitionsRevoked(
			func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				write(line{Event: "revoked", Text: fmt.Sprint(partitions)})
			}))
	}
	return append(options, kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(reports("revoked")))
}

type consumer struct {
	script
	client      *kgo.Client
	uncommitted map[int32]kgo.EpochOffset
	handled     int
	acted       bool
}

func (c *consumer) round(stop context.Context) {
	waiting, cancel := context.WithTimeout(stop, 200*time.Millisecond)
	defer cancel()
	fetches := c.client.PollRecords(waiting, c.PerPoll)
	fetches.EachError(func(_ string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			write(line{Event: "error", Text: fmt.Sprint(partition, ": ", err)})
		}
	})
	polled := fetches.NumRecords()
	fetches.EachRecord(c.handle)
	output.Flush()
	if !c.acted && c.handled >= c.ActAfter {
		c.act(stop)
	} else if polled > 0 && c.Commit == "sync" && (c.acted || c.Act != "seek") {
		c.commit()
	}
}

func (c *consumer) handle(record *kgo.Record) {
	c.handled++
	show(record)
	if _, known := c.uncommitted[record.Partition]; !known {
		c.uncommitted[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset}
	}
	time.Sleep(time.Duration(c.PerRecord * float64(time.Second)))
}

func (c *consumer) act(stop context.Context) {
	c.acted = true
	switch c.Act {
	case "pause":
		c.client.PauseFetchTopics(c.Topic)
		c.round(stop)
		c.round(stop)
		c.client.ResumeFetchTopics(c.Topic)
	case "seek":
		c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{c.Topic: c.uncommitted})
	}
	write(line{Event: "acted"})
}

func (c *consumer) commit() {
	if err := c.client.CommitUncommittedOffsets(context.Background()); err != nil {
		var known *kerr.Error
		if !errors.As(err, &known) {
			write(line{Event: "error", Text: err.Error()})
		}
		write(line{Event: "commit failed", Text: err.Error()})
		return
	}
	clear(c.uncommitted)
	write(line{Event: "committed"})
}

func main() {
	var s script
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		panic(err)
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := kgo.NewClient(s.options()...)
	if err != nil {
		panic(err)
	}
	c := &consumer{script: s, client: client, uncommitted: map[int32]kgo.EpochOffset{}, acted: s.Act == ""}
	for stop.Err() == nil {
		c.round(stop)
	}
	if s.Commit == "auto" {
		// What the last poll returned counts as uncommitted until the next one.
		_ = client.CommitUncommittedOffsets(context.Background())
	}
	client.Close()
	output.Flush()
}
