package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/edwarnicke/grpcfd"
	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	kernelmech "github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/client"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/endpoint"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/begin"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/clientinfo"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/clienturl"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/connect"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/excludedprefixes"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/recvfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/sendfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanismtranslation"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/monitor"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/null"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/policyroute"
	"github.com/networkservicemesh/sdk/pkg/networkservice/connectioncontext/dnscontext"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/chain"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/next"
	"github.com/networkservicemesh/sdk/pkg/networkservice/ipam/point2pointipam"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// expires is when all tokens end: 18 May 2033, 03:33:20 UTC, and 250 ns.
var expires = time.Unix(2_000_000_000, 250).UTC()

func tokenOf(name string) token.GeneratorFunc {
	return func(credentials.AuthInfo) (string, time.Time, error) {
		return "token." + name + ".signature", expires, nil
	}
}

// plain sends tokens over connections that are not encrypted.
type plain struct {
	credentials.PerRPCCredentials
}

func (plain) RequireTransportSecurity() bool { return false }

func transport() credentials.TransportCredentials {
	return grpcfd.TransportCredentials(insecure.NewCredentials())
}

// dialOptions are those of the mesh's programs, over a socket that is recorded.
func dialOptions(name string, to *hop) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(transport()),
		grpc.WithContextDialer(to.dial),
		grpc.WithDefaultCallOptions(
			grpc.WaitForReady(true),
			grpc.PerRPCCredentials(plain{token.NewPerRPCCredentials(tokenOf(name))}),
		),
		grpcfd.WithChainUnaryInterceptor(),
		grpcfd.WithChainStreamInterceptor(),
	}
}

func (h *hop) url() *url.URL {
	return &url.URL{Scheme: "unix", Path: h.socket}
}

func serve(ctx context.Context, hop *hop, chain endpoint.Endpoint) {
	server := grpc.NewServer(grpc.Creds(transport()))
	chain.Register(server)
	go func() { _ = server.Serve(hop) }()
	go func() {
		<-ctx.Done()
		server.Stop()
	}()
}

// reselecting lets the connection be given up from outside, as healing does.
type reselecting struct {
	events begin.EventFactory
}

func (r *reselecting) Request(ctx context.Context, request *networkservice.NetworkServiceRequest, opts ...grpc.CallOption) (*networkservice.Connection, error) {
	r.events = begin.FromContext(ctx)
	return next.Client(ctx).Request(ctx, request, opts...)
}

func (r *reselecting) Close(ctx context.Context, conn *networkservice.Connection, opts ...grpc.CallOption) (*empty.Empty, error) {
	return next.Client(ctx).Close(ctx, conn, opts...)
}

func newNSC(ctx context.Context, to *hop, reselecting *reselecting) networkservice.NetworkServiceClient {
	return client.NewClient(ctx,
		client.WithName("nsc"),
		client.WithClientURL(to.url()),
		client.WithDialOptions(dialOptions("nsc", to)...),
		client.WithAdditionalFunctionality(
			reselecting,
			clientinfo.NewClient(),
			mechanisms.NewClient(map[string]networkservice.NetworkServiceClient{
				kernelmech.MECHANISM: chain.NewNetworkServiceClient(
					kernel.NewClient(kernel.WithInterfaceName("nsm-1")),
				),
			}),
			sendfd.NewClient(),
			excludedprefixes.NewClient(),
		),
	)
}

func newForwarder(ctx context.Context, to *hop) endpoint.Endpoint {
	return endpoint.NewServer(ctx, tokenOf("forwarder"),
		endpoint.WithName("forwarder"),
		endpoint.WithAdditionalFunctionality(
			recvfd.NewServer(),
			sendfd.NewServer(),
			mechanisms.NewServer(map[string]networkservice.NetworkServiceServer{
				kernelmech.MECHANISM: null.NewServer(),
			}),
			clienturl.NewServer(to.url()),
			connect.NewServer(client.NewClient(ctx,
				client.WithoutRefresh(),
				client.WithName("forwarder"),
				client.WithDialOptions(dialOptions("forwarder", to)...),
				client.WithAdditionalFunctionality(
					mechanismtranslation.NewClient(),
					kernel.NewClient(kernel.WithInterfaceName("nse-1")),
					recvfd.NewClient(),
					sendfd.NewClient(),
				),
			)),
		),
	)
}

// answering gives what an endpoint may give besides, and says what it is told to say.
type answering struct {
	refuses    bool
	connection *networkservice.Connection
	consumer   monitor.EventConsumer
}

func (a *answering) Request(ctx context.Context, request *networkservice.NetworkServiceRequest) (*networkservice.Connection, error) {
	if a.refuses {
		return nil, errors.New("the endpoint is out of order")
	}
	fill(request.GetConnection())
	a.consumer, _ = monitor.LoadEventConsumer(ctx, false)
	connection, err := next.Server(ctx).Request(ctx, request)
	a.connection = connection.Clone()
	return connection, err
}

func (a *answering) Close(ctx context.Context, conn *networkservice.Connection) (*empty.Empty, error) {
	return next.Server(ctx).Close(ctx, conn)
}

// askForRefresh tells those who watch that the connection is to be asked for again.
func (a *answering) askForRefresh() error {
	connection := a.connection.Clone()
	connection.State = networkservice.State_REFRESH_REQUESTED
	return a.consumer.Send(&networkservice.ConnectionEvent{
		Type:        networkservice.ConnectionEventType_UPDATE,
		Connections: map[string]*networkservice.Connection{connection.GetId(): connection},
	})
}

func newNSE(ctx context.Context, answering *answering) endpoint.Endpoint {
	_, prefix, _ := net.ParseCIDR("172.16.1.100/31")
	return endpoint.NewServer(ctx, tokenOf("nse"),
		endpoint.WithName("nse"),
		endpoint.WithAdditionalFunctionality(
			point2pointipam.NewServer(prefix),
			policyroute.NewServer(policies),
			mechanisms.NewServer(map[string]networkservice.NetworkServiceServer{
				kernelmech.MECHANISM: kernel.NewServer(),
			}),
			dnscontext.NewServer(&networkservice.DNSConfig{
				DnsServerIps:  []string{"172.16.1.100", "10.96.0.10"},
				SearchDomains: []string{"mesh.example", "example.net"},
			}),
			sendfd.NewServer(),
			answering,
		),
	)
}
