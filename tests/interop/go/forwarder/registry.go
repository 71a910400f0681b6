package main

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/networkservicemesh/api/pkg/api/networkservice/payload"
	"github.com/networkservicemesh/api/pkg/api/registry"
	"github.com/networkservicemesh/sdk/pkg/registry/common/memory"
	"github.com/networkservicemesh/sdk/pkg/registry/core/adapters"
)

// registryOf is one in memory, of the endpoints that are listed: SERVICE=URL,... An endpoint has the
// name of its socket.
func registryOf(ctx context.Context, list string) (registry.NetworkServiceRegistryClient,
	registry.NetworkServiceEndpointRegistryClient, error) {
	services := memory.NewNetworkServiceRegistryServer()
	endpoints := memory.NewNetworkServiceEndpointRegistryServer()
	for _, item := range strings.Split(list, ",") {
		service, address, _ := strings.Cut(item, "=")
		u, err := url.Parse(address)
		if err != nil || u.Path == "" {
			return nil, nil, fmt.Errorf("%q is no SERVICE=URL", item)
		}
		_, err = services.Register(ctx, &registry.NetworkService{
			Name:    service,
			Payload: payload.Ethernet,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("register service %s: %w", service, err)
		}
		_, err = endpoints.Register(ctx, &registry.NetworkServiceEndpoint{
			Name:                strings.TrimSuffix(path.Base(u.Path), ".sock"),
			NetworkServiceNames: []string{service},
			Url:                 address,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("register endpoint %s: %w", address, err)
		}
	}
	return adapters.NetworkServiceServerToClient(services),
		adapters.NetworkServiceEndpointServerToClient(endpoints), nil
}
