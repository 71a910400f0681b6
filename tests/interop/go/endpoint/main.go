// Command endpoint is an endpoint of the Go implementation: the chain of sdk, with addresses and
// policies.
package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/endpoint"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms"
	kernelmechanism "github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/kernel"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/mechanisms/sendfd"
	"github.com/networkservicemesh/sdk/pkg/networkservice/common/policyroute"
	"github.com/networkservicemesh/sdk/pkg/networkservice/ipam/groupipam"
	"github.com/networkservicemesh/sdk/pkg/tools/cidr"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"gopkg.in/yaml.v3"

	"interop/go/internal/program"
	"interop/go/internal/wire"
)

func main() {
	var prefixes cidr.Groups
	name := flag.String("name", "nse", "the name of this endpoint")
	listenOn := program.URL("listen-on", "where it is found")
	// As the other implementation has it. An endpoint of sdk does not ask which service is meant.
	flag.String("service-names", "", "what it serves")
	flag.Func("cidr-prefix", "the prefixes that addresses come from", prefixes.Decode)
	policies := flag.String("pbr-config-path", "", "the file with the policies")
	life := program.Life()

	program.Run(func(asked, ctx context.Context) error {
		server := endpoint.NewServer(ctx, wire.Tokens(*name, *life),
			endpoint.WithName(*name),
			endpoint.WithAdditionalFunctionality(
				groupipam.NewServer(prefixes),
				policyroute.NewServer(read(ctx, *policies)),
				mechanisms.NewServer(map[string]networkservice.NetworkServiceServer{
					kernel.MECHANISM: kernelmechanism.NewServer(),
				}),
				sendfd.NewServer(),
			))
		return program.Serve(asked, listenOn, server)
	})
}

// read gives what is in the file at each request. What cannot be read leaves what was.
func read(ctx context.Context, path string) policyroute.PolicyRoutesFunc {
	var last []*networkservice.PolicyRoute
	return func() []*networkservice.PolicyRoute {
		text, err := os.ReadFile(path) // #nosec G304 -- it is a setting
		var policies []*networkservice.PolicyRoute
		if err = errors.Join(err, yaml.Unmarshal(text, &policies)); err != nil {
			log.FromContext(ctx).Errorf("cannot read %s: %v", path, err)
			return last
		}
		last = policies
		return policies
	}
}
