// The producers written in Go; see producing.py. The first argument is the library.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

const keys = 17

type feed struct {
	Bootstrap string `json:"bootstrap_servers"`
	ClientID  string `json:"client_id"`
	Topic     string `json:"topic"`
	Count     int    `json:"count"`
	Rate      int    `json:"rate"`
}

func (f feed) key(number int) []byte   { return fmt.Appendf(nil, "key-%d", number%keys) }
func (f feed) value(number int) []byte { return fmt.Appendf(nil, "%s-%d|", f.ClientID, number) }

func acknowledged(number int, partition int32, offset int64) {
	fmt.Printf("{\"number\":%d,\"partition\":%d,\"offset\":%d}\n", number, partition, offset)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Idempotent unless told otherwise.
func withFranz(f feed) {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.Bootstrap), kgo.ClientID(f.ClientID))
	check(err)
	defer client.Close()
	began := time.Now()
	for number := range f.Count {
		if f.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(number) * time.Second / time.Duration(f.Rate))))
		}
		record := &kgo.Record{Topic: f.Topic, Key: f.key(number), Value: f.value(number)}
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			check(err)
			acknowledged(number, record.Partition, record.Offset)
		})
	}
	check(client.Flush(context.Background()))
}

func withSarama(f feed) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.ClientID = f.ClientID
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1 // or it refuses to be idempotent
	producer, err := sarama.NewSyncProducer([]string{f.Bootstrap}, config)
	check(err)
	defer producer.Close()
	for number := range f.Count {
		message := &sarama.ProducerMessage{
			Topic: f.Topic, Key: sarama.ByteEncoder(f.key(number)), Value: sarama.ByteEncoder(f.value(number)),
		}
		partition, offset, err := producer.SendMessage(message)
		check(err)
		acknowledged(number, partition, offset)
	}
}

// It knows no idempotence, and says no offsets to who waits.
func withSegmentio(f feed) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(f.Bootstrap), Topic: f.Topic, RequiredAcks: kafka.RequireAll, Balancer: &kafka.Hash{},
		BatchTimeout: 10 * time.Millisecond, Transport: &kafka.Transport{ClientID: f.ClientID},
	}
	messages := make([]kafka.Message, f.Count)
	for number := range messages {
		messages[number] = kafka.Message{Key: f.key(number), Value: f.value(number)}
	}
	check(writer.WriteMessages(context.Background(), messages...))
	check(writer.Close())
	for number := range messages {
		acknowledged(number, -1, -1)
	}
}

func main() {
	var f feed
	check(json.Unmarshal([]byte(os.Args[2]), &f))
	map[string]func(feed){"franz-go": withFranz, "sarama": withSarama, "kafka-go": withSegmentio}[os.Args[1]](f)
}
