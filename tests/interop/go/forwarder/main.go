// Command forwarder is a forwarder of the Go implementation: the elements of sdk and sdk-kernel in
// the order of forwarder-vpp, which joins a client and an endpoint by a veth pair.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/sdk-kernel/pkg/kernel/networkservice/connectioncontextkernel"
	"github.com/networkservicemesh/sdk-kernel/pkg/kernel/networkservice/inject"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/client"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/endpoint"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/connect"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/discover"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/filtermechanisms"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/recvfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/sendfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanismtranslation"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/roundrobin"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/chain"

	"interop/go/internal/pair"
	"interop/go/internal/program"
	"interop/go/internal/wire"
)

func main() {
	name := flag.String("name", "forwarder", "the name of this forwarder")
	listenOn := program.URL("listen-on", "where it is found")
	endpoints := flag.String("endpoints", "", "where the endpoints are: SERVICE=URL,...")
	dialTimeout := flag.Duration("dial-timeout", 750*time.Millisecond, "how long a connection may take")
	life := program.Life()

	program.Run(func(asked, ctx context.Context) error {
		services, nses, err := registryOf(ctx, *endpoints)
		if err != nil {
			return err
		}
		tokens := wire.Tokens(*name, *life)
		server := endpoint.NewServer(ctx, tokens,
			endpoint.WithName(*name),
			endpoint.WithAdditionalFunctionality(
				recvfd.NewServer(),
				sendfd.NewServer(),
				discover.NewServer(services, nses),
				roundrobin.NewServer(),
				// Above what moves the interface, so that on a close it still finds it: forwarder-ovs
				// has it below, and leaves the rules.
				connectioncontextkernel.NewServer(),
				mechanisms.NewServer(map[string]networkservice.NetworkServiceServer{
					kernel.MECHANISM: chain.NewNetworkServiceServer(pair.NewServer(), inject.NewServer()),
				}),
				connect.NewServer(client.NewClient(ctx,
					client.WithoutRefresh(),
					client.WithName(*name),
					client.WithDialOptions(wire.DialOptions(tokens)...),
					client.WithDialTimeout(*dialTimeout),
					client.WithAdditionalFunctionality(
						mechanismtranslation.NewClient(),
						connectioncontextkernel.NewClient(),
						inject.NewClient(),
						pair.NewClient(),
						filtermechanisms.NewClient(),
						recvfd.NewClient(),
						sendfd.NewClient(),
					),
				)),
			))
		return program.Serve(asked, listenOn, server)
	})
}
