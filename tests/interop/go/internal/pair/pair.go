// Package pair makes the interfaces of a connection: a veth pair in the forwarder's own namespace,
// whose ends sdk-kernel's inject moves to the client and to the endpoint.
package pair

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/vishvananda/netlink"
)

// names are those of the two ends while they are here. A forwarder that is started anew finds them by
// the connection's id.
func names(conn *networkservice.Connection) (client, endpoint string) {
	sum := sha256.Sum256([]byte(conn.GetId()))
	id := hex.EncodeToString(sum[:6])
	return "c-" + id, "e-" + id
}

// create makes the pair. What a former forwarder has left here goes, with its other end.
func create(conn *networkservice.Connection) error {
	client, endpoint := names(conn)
	remove(conn)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = client
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: endpoint})
	if err != nil {
		return fmt.Errorf("create veth pair %s and %s: %w", client, endpoint, err)
	}
	return nil
}

// remove deletes what there is here of a pair. With one end goes the other, wherever it is.
func remove(conn *networkservice.Connection) {
	client, endpoint := names(conn)
	for _, name := range []string{client, endpoint} {
		if link, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(link)
		}
	}
}
