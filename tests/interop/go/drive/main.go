// Command drive drives the Go element by lines of JSON, as the package drive does the Rust one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"

	"interop/go/internal/parent"
)

func main() {
	// What is logged below that costs the element time, and a forwarder is not run so.
	logrus.SetLevel(logrus.ErrorLevel)
	logrus.SetOutput(os.Stderr)
	log.EnableTracing(false)

	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "drive:", err)
		os.Exit(1)
	}
}

func serve() error {
	// One that hangs does not see the end of its input.
	if err := parent.EndWith(); err != nil {
		return err
	}
	d := &driver{}
	d.chain = newChain(&d.endpoint)
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	replies := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read what is asked: %w", err)
		}
		if err := replies.Encode(d.reply(line)); err != nil {
			return fmt.Errorf("cannot answer: %w", err)
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("cannot answer: %w", err)
		}
	}
}

type driver struct {
	chain    networkservice.NetworkServiceServer
	endpoint endpoint
}

func (d *driver) reply(line []byte) any {
	var o op
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&o); err != nil {
		return bad{Bad: err.Error()}
	}
	switch o.Op {
	case "request":
		return d.request(&o)
	case "close":
		a, _ := d.prepare(&o)()
		return a
	case "series":
		return d.series(o.Ops, max(o.Repeat, 1))
	case "parallel":
		return d.parallel(o.Ops)
	default:
		return bad{Bad: fmt.Sprintf("unknown op %q", o.Op)}
	}
}

// request is one of which the answer is looked at.
func (d *driver) request(o *op) answer {
	a, conn := d.prepare(o)()
	a.Altered = conn != nil && !proto.Equal(conn.GetContext(), o.answered().GetContext())
	return a
}

// call is one that has only to be made.
type call func() (answer, *networkservice.Connection)

// prepare makes everything but the call.
func (d *driver) prepare(o *op) call {
	if o.Op == "close" {
		conn := o.answered()
		return func() (answer, *networkservice.Connection) {
			begin := time.Now()
			_, err := d.chain.Close(context.Background(), conn)
			return d.answer(time.Since(begin), err), nil
		}
	}
	ctx := withAnswer(context.Background(), o.answered())
	request := &networkservice.NetworkServiceRequest{Connection: o.asked()}
	return func() (answer, *networkservice.Connection) {
		begin := time.Now()
		conn, err := d.chain.Request(ctx, request)
		return d.answer(time.Since(begin), err), conn
	}
}

func (d *driver) answer(took time.Duration, err error) answer {
	a := answer{OK: err == nil, Us: microseconds(took), ClosedBelow: d.endpoint.closed.Load()}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (d *driver) series(ops []op, repeat int) answers {
	calls := make([]call, 0, len(ops)*repeat)
	for range repeat {
		for i := range ops {
			calls = append(calls, d.prepare(&ops[i]))
		}
	}
	all := answers{Answers: make([]answer, len(calls))}
	begin := time.Now()
	for i, call := range calls {
		all.Answers[i], _ = call()
	}
	all.Us = microseconds(time.Since(begin))
	return all
}

func (d *driver) parallel(ops []op) answers {
	all := answers{Answers: make([]answer, len(ops))}
	start := make(chan struct{})
	var running sync.WaitGroup
	for i := range ops {
		call := d.prepare(&ops[i])
		running.Add(1)
		go func() {
			defer running.Done()
			<-start
			all.Answers[i], _ = call()
		}()
	}
	begin := time.Now()
	close(start)
	running.Wait()
	all.Us = microseconds(time.Since(begin))
	return all
}

func microseconds(took time.Duration) float64 {
	return float64(took.Nanoseconds()) / 1000
}
