package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/next"
	"google.golang.org/grpc"
)

// told tells what each answer brings, in the words of the other implementation.
type told struct{}

func (t *told) Request(ctx context.Context, request *networkservice.NetworkServiceRequest,
	opts ...grpc.CallOption) (*networkservice.Connection, error) {
	conn, err := next.Client(ctx).Request(ctx, request, opts...)
	if err != nil {
		return nil, err
	}
	ip := conn.GetContext().GetIpContext()
	fmt.Printf("the connection stands connection.id=%q interface=%q addresses=%q endpoint=%q policies=%d\n",
		conn.GetId(),
		kernel.ToMechanism(conn.GetMechanism()).GetInterfaceName(),
		strings.Join(ip.GetSrcIpAddrs(), ","),
		conn.GetNetworkServiceEndpointName(),
		len(ip.GetPolicies()))
	return conn, nil
}

func (t *told) Close(ctx context.Context, conn *networkservice.Connection,
	opts ...grpc.CallOption) (*empty.Empty, error) {
	return next.Client(ctx).Close(ctx, conn, opts...)
}
