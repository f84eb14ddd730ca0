// franz-go carrying out a script; see script.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kafka-mesh/tests/clients/member"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type script struct{ member.Script }

func show(record *kgo.Record) {
	headers := [][2]any{}
	for _, header := range record.Headers {
		headers = append(headers, [2]any{header.Key, header.Value})
	}
	member.Show(member.Record{
		Partition: record.Partition, Offset: record.Offset,
		Timestamp: record.Timestamp, TimestampType: record.Attrs.TimestampType(),
		Key: record.Key, Value: record.Value, Headers: headers,
	})
}

func (s script) options() []kgo.Opt {
	reports := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 {
				member.Report(event, fmt.Sprint(partitions))
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
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	if s.Group == nil {
		partitions := map[int32]kgo.Offset{}
		for partition := range s.Partitions {
			partitions[partition] = reset
		}
		return append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.Topic: partitions}))
	}
	options = append(options,
		kgo.ConsumerGroup(*s.Group),
		kgo.SessionTimeout(member.Milliseconds(s.Session)), kgo.RebalanceTimeout(member.Milliseconds(s.Rebalance)),
		kgo.OnPartitionsAssigned(reports("assigned")), kgo.OnPartitionsLost(reports("lost")),
	)
	if s.Pattern != "" {
		options = append(options, kgo.ConsumeTopics(s.Pattern), kgo.ConsumeRegex())
	} else {
		options = append(options, kgo.ConsumeTopics(strings.Split(s.Topic, ",")...))
	}
	if s.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if s.InstanceID != nil {
		options = append(options, kgo.InstanceID(*s.InstanceID))
	}
	if s.Commit == "auto" {
		interval := member.Milliseconds(s.Interval)
		return append(options, kgo.AutoCommitInterval(interval), kgo.OnPartitionsRevoked(
			func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
				member.Report("revoked", fmt.Sprint(partitions))
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
	failed      bool
}

func (c *consumer) round(stop context.Context) {
	waiting, cancel := context.WithTimeout(stop, 200*time.Millisecond)
	defer cancel()
	fetches := c.client.PollRecords(waiting, c.PerPoll)
	fetches.EachError(func(_ string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			member.Report("error", fmt.Sprint(partition, ": ", err))
		}
	})
	polled := fetches.NumRecords()
	for _, record := range fetches.Records() {
		if c.handle(record); c.failed {
			member.Flush()
			return
		}
	}
	member.Flush()
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
	time.Sleep(member.Seconds(c.PerRecord))
	if c.acted || c.handled != c.ActAfter {
		return
	}
	switch c.Act {
	case "throw":
		c.acted, c.failed = true, true
	case "stall":
		member.Flush()
		time.Sleep(member.Seconds(c.ActSeconds))
	}
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
	member.Report("acted", "")
}

func (c *consumer) commit() {
	if err := c.client.CommitUncommittedOffsets(context.Background()); err != nil {
		var known *kerr.Error
		if !errors.As(err, &known) {
			member.Report("error", err.Error())
		}
		member.Report("commit failed", err.Error())
		return
	}
	clear(c.uncommitted)
	member.Report("committed", "")
}

// run consumes until the script ends, or its handler has failed: then the application begins anew.
func (c *consumer) run(stop context.Context) {
	client, err := kgo.NewClient(c.options()...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	c.client, c.failed, c.uncommitted = client, false, map[int32]kgo.EpochOffset{}
	for stop.Err() == nil && !c.failed {
		c.round(stop)
	}
	if c.failed {
		member.Report("acted", "")
	} else if c.Commit == "auto" && c.Group != nil {
		// What the last poll returned counts as uncommitted until the next one.
		_ = client.CommitUncommittedOffsets(context.Background())
	}
}

func main() {
	read, stop := member.Load()
	c := &consumer{script: script{read}, acted: read.Act == ""}
	for stop.Err() == nil {
		c.run(stop)
	}
	member.Flush()
}
