// Command client is a client of the Go implementation: the chain of sdk as cmd-nsc has it, with one
// connection.
package main

import (
	"context"
	"flag"
	"net/url"
	"time"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	kernelmech "github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	liveness "github.com/networkservicemesh/sdk-kernel/pkg/kernel/tools/heal"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/client"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/heal"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/sendfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/upstreamrefresh"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/chain"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/nsurl"

	"interop/go/internal/program"
	"interop/go/internal/wire"
)

func main() {
	name := flag.String("name", "nsc", "the name of this client")
	connectTo := program.URL("connect-to", "where the forwarder is")
	service := program.URL("network-services", "what to connect to: SERVICE/INTERFACE")
	dialTimeout := flag.Duration("dial-timeout", 5*time.Second, "how long a connection may take")
	requestTimeout := flag.Duration("request-timeout", 15*time.Second, "how long a call may take")
	feels := flag.Bool("liveness-check-enabled", true, "whether it feels what it has")
	interval := flag.Duration("liveness-check-interval", 200*time.Millisecond, "how often")
	timeout := flag.Duration("liveness-check-timeout", time.Second, "how long an answer may take")
	life := program.Life()

	program.Run(func(asked, ctx context.Context) error {
		healing := []heal.Option{
			heal.WithLivenessCheckInterval(*interval),
			heal.WithLivenessCheckTimeout(*timeout),
		}
		if *feels {
			healing = append(healing, heal.WithLivenessCheck(liveness.KernelLivenessCheck))
		}
		c := client.NewClient(ctx,
			client.WithClientURL(connectTo),
			client.WithName(*name),
			client.WithHealClient(heal.NewClient(ctx, healing...)),
			client.WithAdditionalFunctionality(
				new(told),
				upstreamrefresh.NewClient(ctx),
				mechanisms.NewClient(map[string]networkservice.NetworkServiceClient{
					kernelmech.MECHANISM: chain.NewNetworkServiceClient(kernel.NewClient()),
				}),
				sendfd.NewClient(),
			),
			client.WithDialTimeout(*dialTimeout),
			client.WithDialOptions(wire.DialOptions(wire.Tokens(*name, *life))...),
		)
		conn := connect(asked, ctx, c, *requestTimeout, request(*name+"-0", service))
		if conn == nil {
			return nil
		}
		<-asked.Done()

		closing, cancel := context.WithTimeout(ctx, *requestTimeout)
		defer cancel()
		_, err := c.Close(closing, conn)
		return err
	})
}

func request(id string, service *url.URL) *networkservice.NetworkServiceRequest {
	u := (*nsurl.NSURL)(service)
	return &networkservice.NetworkServiceRequest{
		Connection: &networkservice.Connection{
			Id:             id,
			NetworkService: u.NetworkService(),
			Labels:         u.Labels(),
		},
		MechanismPreferences: []*networkservice.Mechanism{u.Mechanism()},
	}
}

// connect asks until the connection stands, or until the program is to end.
func connect(asked, ctx context.Context, c networkservice.NetworkServiceClient, timeout time.Duration,
	request *networkservice.NetworkServiceRequest) *networkservice.Connection {
	for asked.Err() == nil {
		requesting, cancel := context.WithTimeout(ctx, timeout)
		conn, err := c.Request(requesting, request.Clone())
		cancel()
		if err == nil {
			return conn
		}
		log.FromContext(ctx).Errorf("the request failed: %v", err)
		// A little, so that the log can be read.
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
