package main

import (
	"strconv"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/cls"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
)

// op is a line that comes in. README.md tells the fields.
type op struct {
	Op        string    `json:"op"`
	ID        string    `json:"id"`
	NetNS     string    `json:"netns"`
	Interface string    `json:"interface"`
	VLAN      int       `json:"vlan"`
	Sources   []string  `json:"sources"`
	Asked     *[]policy `json:"asked"`
	Policies  *[]policy `json:"policies"`

	Ops    []op `json:"ops"`
	Repeat int  `json:"repeat"`
}

type policy struct {
	From    string `json:"from"`
	Proto   string `json:"proto"`
	DstPort string `json:"dstport"`
	SrcPort string `json:"srcport"`
	Routes  []via  `json:"routes"`
}

type via struct {
	Prefix  string `json:"prefix"`
	NextHop string `json:"nexthop"`
}

// answer is what came of a call.
type answer struct {
	OK          bool    `json:"ok"`
	Us          float64 `json:"us"`
	Error       string  `json:"error,omitempty"`
	ClosedBelow uint64  `json:"closed_below"`
	Altered     bool    `json:"altered,omitempty"`
}

type answers struct {
	Us      float64  `json:"us"`
	Answers []answer `json:"answers"`
}

type bad struct {
	Bad string `json:"bad"`
}

// asked is the connection as the client sends it: what is chosen by the answer, a first request does not have yet.
func (o *op) asked() *networkservice.Connection {
	if o.Asked == nil {
		return &networkservice.Connection{Id: o.ID}
	}
	return o.connection(o.Asked)
}

// answered is the connection as the endpoint answers it.
func (o *op) answered() *networkservice.Connection {
	return o.connection(o.Policies)
}

func (o *op) connection(policies *[]policy) *networkservice.Connection {
	parameters := map[string]string{
		kernel.NetNSURL:         "file://" + o.NetNS,
		kernel.InterfaceNameKey: o.Interface,
	}
	if o.VLAN != 0 {
		parameters[kernel.VLAN] = strconv.Itoa(o.VLAN)
	}
	conn := &networkservice.Connection{
		Id: o.ID,
		Mechanism: &networkservice.Mechanism{
			Cls:        cls.LOCAL,
			Type:       kernel.MECHANISM,
			Parameters: parameters,
		},
	}
	if policies != nil {
		ip := &networkservice.IPContext{SrcIpAddrs: o.Sources}
		for i := range *policies {
			ip.Policies = append(ip.Policies, (*policies)[i].message())
		}
		conn.Context = &networkservice.ConnectionContext{IpContext: ip}
	}
	return conn
}

func (p *policy) message() *networkservice.PolicyRoute {
	message := &networkservice.PolicyRoute{
		From:    p.From,
		Proto:   p.Proto,
		DstPort: p.DstPort,
		SrcPort: p.SrcPort,
	}
	for _, route := range p.Routes {
		message.Routes = append(message.Routes, &networkservice.Route{Prefix: route.Prefix, NextHop: route.NextHop})
	}
	return message
}
