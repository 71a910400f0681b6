package main

import (
	"context"
	"sync/atomic"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/sdk-kernel/pkg/kernel/networkservice/connectioncontextkernel/ipcontext/iprule"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/begin"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/chain"
	"github.com/networkservicemesh/sdk/pkg/networkservice/utils/metadata"
)

// newChain has what a forwarder's chain has around the element, and an endpoint within the process.
func newChain(end *endpoint) networkservice.NetworkServiceServer {
	return chain.NewNetworkServiceServer(
		begin.NewServer(),
		metadata.NewServer(),
		iprule.NewServer(),
		end,
	)
}

// endpoint answers a request with what stands in its context.
type endpoint struct {
	closed atomic.Uint64
}

type answerKey struct{}

func withAnswer(ctx context.Context, conn *networkservice.Connection) context.Context {
	return context.WithValue(ctx, answerKey{}, conn)
}

func (e *endpoint) Request(ctx context.Context, request *networkservice.NetworkServiceRequest) (*networkservice.Connection, error) {
	conn := request.GetConnection()
	if answered, ok := ctx.Value(answerKey{}).(*networkservice.Connection); ok {
		conn.Context = answered.GetContext()
		conn.Mechanism = answered.GetMechanism()
	}
	return conn, nil
}

func (e *endpoint) Close(context.Context, *networkservice.Connection) (*empty.Empty, error) {
	e.closed.Add(1)
	return &empty.Empty{}, nil
}
