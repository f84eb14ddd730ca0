// sarama carrying out a script; see script.py. Its group hands out each partition to a goroutine of its own; here one at
// a time handles a record.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"kafka-mesh/tests/clients/member"

	"github.com/IBM/sarama"
)

var errHandler = errors.New("the handler failed")

// sarama has no poll: at most so many records of a partition are committed together.
const together = 50

type handler struct {
	member.Script
	group   sarama.ConsumerGroup
	lock    sync.Mutex
	handled int
	acted   bool
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	member.Report("assigned", fmt.Sprint(session.Claims()[h.Topic]))
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	member.Report("revoked", "")
	return nil
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	uncommitted := 0
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if err := h.handle(message); err != nil {
				return err
			}
			member.Flush() // what is marked may be committed by any claim at once: a kill then must not take the line of it
			session.MarkMessage(message, "")
			uncommitted++
			if h.Commit == "sync" && (uncommitted >= together || len(claim.Messages()) == 0) {
				session.Commit()
				member.Report("committed", "")
				uncommitted = 0
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (h *handler) handle(message *sarama.ConsumerMessage) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.handled++
	show(message)
	time.Sleep(member.Seconds(h.PerRecord))
	if !h.acted && h.handled >= h.ActAfter {
		h.acted = true
		defer member.Report("acted", "")
		switch h.Act {
		case "throw":
			return errHandler
		case "stall":
			member.Flush()
			time.Sleep(member.Seconds(h.ActSeconds))
		case "pause":
			h.group.PauseAll()
			time.AfterFunc(600*time.Millisecond, h.group.ResumeAll)
		}
	}
	return nil
}

func show(message *sarama.ConsumerMessage) {
	headers := [][2]any{}
	for _, header := range message.Headers {
		headers = append(headers, [2]any{string(header.Key), header.Value})
	}
	member.Show(member.Record{
		Partition: message.Partition, Offset: message.Offset, Timestamp: message.Timestamp,
		Key: message.Key, Value: message.Value, Headers: headers,
	})
}

func configuration(s member.Script) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.ClientID = s.ClientID
	config.Consumer.MaxWaitTime = 500 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetNewest
	if s.Reset == "earliest" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	config.Consumer.Offsets.AutoCommit.Enable = s.Commit == "auto"
	config.Consumer.Offsets.AutoCommit.Interval = member.Milliseconds(s.Interval)
	config.Consumer.Group.Session.Timeout = member.Milliseconds(s.Session)
	config.Consumer.Group.Rebalance.Timeout = member.Milliseconds(s.Rebalance)
	config.Consumer.Group.Heartbeat.Interval = time.Second
	config.Metadata.Retry.Max = 60
	if s.InstanceID != nil {
		config.Consumer.Group.InstanceId = *s.InstanceID
	}
	return config
}

func consumeGroup(s member.Script, stop context.Context) error {
	group, err := sarama.NewConsumerGroup([]string{s.Bootstrap}, *s.Group, configuration(s))
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			member.Report("complaint", err.Error())
		}
	}()
	h := &handler{Script: s, group: group, acted: s.Act == ""}
	for stop.Err() == nil {
		// It ends with every session; an application calls it again.
		if err := group.Consume(stop, strings.Split(s.Topic, ","), h); err != nil {
			member.Report("complaint", err.Error())
			time.Sleep(100 * time.Millisecond)
		}
	}
	return group.Close()
}

func consumePartitions(s member.Script, stop context.Context) error {
	config := configuration(s)
	consumer, err := sarama.NewConsumer([]string{s.Bootstrap}, config)
	if err != nil {
		return err
	}
	h := &handler{Script: s, acted: true}
	var readers sync.WaitGroup
	for partition := range s.Partitions {
		reader, err := consumer.ConsumePartition(s.Topic, partition, config.Consumer.Offsets.Initial)
		if err != nil {
			return err
		}
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				select {
				case message := <-reader.Messages():
					_ = h.handle(message)
				case err := <-reader.Errors():
					member.Report("complaint", err.Error())
				case <-stop.Done():
					return
				}
			}
		}()
	}
	readers.Wait()
	return consumer.Close()
}

func main() {
	s, stop := member.Load()
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			member.Flush()
		}
	}()
	consume := consumeGroup
	if s.Group == nil {
		consume = consumePartitions
	}
	if err := consume(s, stop); err != nil {
		member.Report("error", err.Error())
	}
	member.Flush()
}
