package main

import (
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	kernelmech "github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
)

// What the messages carry. The tests that read the recorded bytes hold the same values.

func firstRequest() *networkservice.NetworkServiceRequest {
	return &networkservice.NetworkServiceRequest{
		Connection: &networkservice.Connection{
			Id:             "nsc-0",
			NetworkService: "policy-based-routing",
			Labels:         map[string]string{"app": "nsc", "color": "red"},
			Payload:        "ETHERNET",
			Context: &networkservice.ConnectionContext{
				IpContext: &networkservice.IPContext{
					SrcIpRequired:    true,
					DstIpRequired:    true,
					ExcludedPrefixes: []string{"10.96.0.0/12", "10.244.0.0/16", "fd00:10:96::/112"},
					ExtraPrefixRequest: []*networkservice.ExtraPrefixRequest{{
						AddrFamily:      &networkservice.IpFamily{Family: networkservice.IpFamily_IPV6},
						PrefixLen:       64,
						RequiredNumber:  1,
						RequestedNumber: 300,
					}},
				},
			},
		},
		MechanismPreferences: []*networkservice.Mechanism{
			{Cls: "LOCAL", Type: kernelmech.MECHANISM, Parameters: map[string]string{"name": "nsm-1", "vlan": "0"}},
			{Cls: "REMOTE", Type: "VXLAN"},
		},
	}
}

func policies() []*networkservice.PolicyRoute {
	return []*networkservice.PolicyRoute{
		{
			From:    "172.16.2.201/24",
			Proto:   "6",
			DstPort: "6666",
			Routes: []*networkservice.Route{
				{Prefix: "172.16.3.0/24", NextHop: "172.16.2.200"},
				{Prefix: "172.16.4.0/24"},
			},
		},
		{From: "172.16.2.201/24", Proto: "6", SrcPort: "5555"},
		{Proto: "17", DstPort: "6667-6670"},
		{
			From:    "2004::3/120",
			Proto:   "17",
			DstPort: "5555",
			Routes:  []*networkservice.Route{{Prefix: "2004::5/120", NextHop: "2004::6"}},
		},
	}
}

// fill gives what the elements of the endpoint do not, and what a manager does.
func fill(connection *networkservice.Connection) {
	connection.NetworkServiceEndpointName = "nse"
	context := connection.GetContext()
	context.MTU = 1450
	context.EthernetContext = &networkservice.EthernetContext{
		SrcMac: "02:00:00:00:00:09", DstMac: "02:00:00:00:00:0a", VlanTag: -1,
	}
	context.ExtraContext = map[string]string{"policy.generation": "12", "zone": "north"}
	ip := context.GetIpContext()
	ip.ExtraPrefixes = []string{"2001:db8:7::/64"}
	ip.IpNeighbors = []*networkservice.IpNeighbor{{Ip: "172.16.1.100", HardwareAddress: "02:00:00:00:00:0a"}}
	route := &networkservice.Route{Prefix: "192.0.2.0/24", NextHop: "172.16.1.100"}
	for _, known := range ip.GetSrcRoutes() {
		if known.GetPrefix() == route.GetPrefix() {
			return
		}
	}
	ip.SrcRoutes = append(ip.SrcRoutes, route)
}
