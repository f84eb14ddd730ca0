// Package member holds what the consumers written in Go have in common: the script that one carries out, the lines it
// writes, and when it acts; see script.py.
package member

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Script is that of script.py.
type Script struct {
	Bootstrap  string  `json:"bootstrap_servers"`
	ClientID   string  `json:"client_id"`
	Group      *string `json:"group"`
	Topic      string  `json:"topic"`
	Pattern    string  `json:"pattern"`
	Partitions int32   `json:"partitions"`
	Reset      string  `json:"reset"`
	Protocol   string  `json:"protocol"`
	Commit     string  `json:"commit"`
	Interval   int     `json:"commit_interval"`
	InstanceID *string `json:"instance_id"`
	Session    int     `json:"session_timeout"`
	Rebalance  int     `json:"max_poll_interval"`
	PerPoll    int     `json:"records_per_poll"`
	PerRecord  float64 `json:"seconds_per_record"`
	Act        string  `json:"act"`
	ActAfter   int     `json:"act_after"`
	ActSeconds float64 `json:"act_seconds"`
}

// Record is a record as a library shows it. A nil key, value or header value is none.
type Record struct {
	Partition     int32
	Offset        int64
	Timestamp     time.Time
	TimestampType int8
	Key, Value    []byte
	Headers       [][2]any
}

// Milliseconds are those of a script.
func Milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }

// Seconds are those of a script.
func Seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// Load reads the script; the context ends with SIGTERM.
func Load() (Script, context.Context) {
	var script Script
	if err := json.Unmarshal([]byte(os.Args[1]), &script); err != nil {
		panic(err)
	}
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return script, stop
}

var (
	lock   sync.Mutex
	output = bufio.NewWriter(os.Stdout)
)

func write(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	lock.Lock()
	defer lock.Unlock()
	output.Write(append(text, '\n'))
	if line["event"] != "record" {
		output.Flush()
	}
}

// Show writes the line of a record; not flushed.
func Show(record Record) {
	if record.Headers == nil {
		record.Headers = [][2]any{}
	}
	write(map[string]any{
		"event": "record", "partition": record.Partition, "offset": record.Offset,
		"timestamp": record.Timestamp.UnixMilli(), "timestamp_type": record.TimestampType,
		"key": record.Key, "value": record.Value, "headers": record.Headers,
	})
}

// Report writes the line of anything else.
func Report(event string, text string) {
	write(map[string]any{"event": event, "text": text})
}

// Flush writes what was shown.
func Flush() {
	lock.Lock()
	defer lock.Unlock()
	output.Flush()
}
