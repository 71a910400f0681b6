package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/begin"
	"google.golang.org/grpc"
)

// quiet is how long nothing more has to come before a step counts as over. Relays work by themselves.
const quiet = 300 * time.Millisecond

// patience is how long all of it may take. It takes some seconds.
const patience = time.Minute

// play lets a client, a forwarder and an endpoint speak, and gives the two hops between them.
func play(folder string) (outer, inner *hop, err error) {
	// No deadline of this one: calls would tell of it in a header.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if outer, err = listen(filepath.Join(folder, "forwarder.sock")); err != nil {
		return nil, nil, err
	}
	if inner, err = listen(filepath.Join(folder, "nse.sock")); err != nil {
		return nil, nil, err
	}
	answering, reselecting := &answering{}, &reselecting{}
	serve(ctx, inner, newNSE(ctx, answering))
	serve(ctx, outer, newForwarder(ctx, inner))
	nsc := newNSC(ctx, outer, reselecting)

	watching, err := grpc.NewClient(outer.url().String(), dialOptions("nsc", outer)...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = watching.Close() }()
	// As a client does before its first request.
	err = watch(ctx, watching, &networkservice.MonitorScopeSelector{
		PathSegments: []*networkservice.PathSegment{{Id: "nsc-0"}},
	})
	if err != nil {
		return nil, nil, err
	}

	request := firstRequest()
	ask := func() error {
		asking, done := context.WithTimeout(ctx, 15*time.Second)
		defer done()
		connection, err := nsc.Request(asking, request.Clone())
		if err == nil {
			request.Connection = connection
		}
		return err
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"first request", ask},
		{"watch", func() error {
			briefly, done := context.WithCancel(ctx)
			time.AfterFunc(quiet/2, done)
			return watch(briefly, watching, &networkservice.MonitorScopeSelector{
				PathSegments:    []*networkservice.PathSegment{{Name: "nsc", Id: "nsc-0"}, {Name: "forwarder"}},
				NetworkServices: []string{"other", "policy-based-routing"},
			})
		}},
		{"ask for a refresh", answering.askForRefresh},
		{"a refresh that is refused", func() error {
			answering.refuses = true
			defer func() { answering.refuses = false }()
			if err := ask(); err == nil {
				return errors.New("it was not refused")
			}
			return nil
		}},
		{"refresh", ask},
		{"reselect", func() error { return <-reselecting.events.Request(begin.WithReselect()) }},
		{"close", func() error {
			_, err := nsc.Close(ctx, request.GetConnection())
			return err
		}},
	}
	late := time.After(patience)
	for _, step := range steps {
		time.Sleep(quiet)
		done := make(chan error, 1)
		go func() { done <- step.do() }()
		var err error
		select {
		case err = <-done:
		case <-late:
			err = fmt.Errorf("the scene has not ended after %v", patience)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	time.Sleep(quiet)
	return outer, inner, nil
}

// watch opens a stream, and reads it as long as there is one.
func watch(ctx context.Context, to grpc.ClientConnInterface, selector *networkservice.MonitorScopeSelector) error {
	stream, err := networkservice.NewMonitorConnectionClient(to).MonitorConnections(ctx, selector)
	if err != nil {
		return err
	}
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	return nil
}
