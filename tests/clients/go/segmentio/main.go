// segmentio/kafka-go carrying out a script; see script.py. What it was assigned it tells only in its log.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"kafka-mesh/tests/clients/member"

	"github.com/segmentio/kafka-go"
)

type consumer struct {
	member.Script
	lock    sync.Mutex
	handled int
	acted   bool
}

func (c *consumer) reader(partition int) *kafka.Reader {
	start := kafka.LastOffset
	if c.Reset == "earliest" {
		start = kafka.FirstOffset
	}
	config := kafka.ReaderConfig{
		Brokers: []string{c.Bootstrap}, StartOffset: start,
		Dialer:   &kafka.Dialer{ClientID: c.ClientID, Timeout: 10 * time.Second, DualStack: true},
		MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond,
		ReadBackoffMin: 10 * time.Millisecond, ReadBackoffMax: 200 * time.Millisecond,
		Logger:      kafka.LoggerFunc(c.logged),
		ErrorLogger: kafka.LoggerFunc(func(text string, values ...any) { member.Report("complaint", fmt.Sprintf(text, values...)) }),
	}
	if c.Group == nil {
		config.Topic, config.Partition = c.Topic, partition
		return kafka.NewReader(config)
	}
	config.GroupID, config.GroupTopics = *c.Group, strings.Split(c.Topic, ",")
	config.SessionTimeout = member.Milliseconds(c.Session)
	config.RebalanceTimeout = member.Milliseconds(c.Rebalance)
	config.HeartbeatInterval = time.Second
	config.JoinGroupBackoff = 200 * time.Millisecond
	if c.Commit == "auto" {
		config.CommitInterval = member.Milliseconds(c.Interval)
	}
	return kafka.NewReader(config)
}

func (c *consumer) logged(text string, values ...any) {
	switch {
	case strings.HasPrefix(text, "subscribed to topics and partitions"):
		member.Report("assigned", fmt.Sprintf(text, values...))
	case strings.HasPrefix(text, "Leaving group"):
		member.Report("left", "")
	}
}

// round handles what is there, at most so many records, and commits it; whether the reader is to be made anew.
func (c *consumer) round(stop context.Context, reader *kafka.Reader) bool {
	waiting, cancel := context.WithTimeout(stop, 200*time.Millisecond)
	defer cancel()
	var handled []kafka.Message
	for len(handled) < c.PerPoll {
		message, err := reader.FetchMessage(waiting)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				member.Report("error", err.Error())
			}
			break
		}
		if c.handle(message) {
			return true
		}
		handled = append(handled, message)
	}
	member.Flush()
	if c.Group == nil || c.Commit == "none" || len(handled) == 0 {
		return false
	}
	if err := reader.CommitMessages(context.Background(), handled...); err != nil {
		member.Report("commit failed", err.Error())
	} else {
		member.Report("committed", "")
	}
	return false
}

// handle returns whether the handler failed.
func (c *consumer) handle(message kafka.Message) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.handled++
	headers := [][2]any{}
	for _, header := range message.Headers {
		headers = append(headers, [2]any{header.Key, header.Value})
	}
	member.Show(member.Record{
		Partition: int32(message.Partition), Offset: message.Offset, Timestamp: message.Time,
		Key: message.Key, Value: message.Value, Headers: headers,
	})
	time.Sleep(member.Seconds(c.PerRecord))
	if c.acted || c.handled < c.ActAfter {
		return false
	}
	c.acted = true
	defer member.Report("acted", "")
	if c.Act == "stall" {
		member.Flush()
		time.Sleep(member.Seconds(c.ActSeconds))
	}
	return c.Act == "throw"
}

func (c *consumer) run(stop context.Context, partition int) {
	for stop.Err() == nil {
		reader := c.reader(partition)
		for stop.Err() == nil && !c.round(stop, reader) {
		}
		reader.Close()
	}
}

func main() {
	script, stop := member.Load()
	c := &consumer{Script: script, acted: script.Act == ""}
	if c.Group != nil {
		c.run(stop, 0)
		member.Flush()
		return
	}
	var readers sync.WaitGroup
	for partition := range int(c.Partitions) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			c.run(stop, partition)
		}()
	}
	readers.Wait()
	member.Flush()
}
